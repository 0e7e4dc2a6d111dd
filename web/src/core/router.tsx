// Router: the address is the view. Owns where we are, how to get elsewhere, and links that do it.

import { signal, type ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";

export interface Route {
  /** As it is in the address. */
  path: string;
  /** Its segments, decoded. */
  parts: string[];
  query: URLSearchParams;
}

/** First segments of the pages of this application; everything else belongs to the server. */
const PAGES = new Set(
  ["", "cursors", "workers", "dead", "runs", "outcomes", "keys", "memory", "experiments", "conversations", "alerts", "audit"],
);

const here = signal<Route>(read());
export const route: ReadonlySignal<Route> = here;
/** How the person came here: what is shown again is shown where it was left. */
export const arrival = signal<"load" | "go" | "back">("load");

export function startRouter(): void {
  history.scrollRestoration = "manual";
  addEventListener("popstate", () => {
    arrival.value = "back";
    if (location.pathname !== here.peek().path) scrollTo(0, 0);
    here.value = read();
  });
}

/** Show another view. What is no page of ours is loaded by the browser. */
export function go(href: string, opts: { replace?: boolean } = {}): void {
  const target = new URL(href, location.href);
  if (!isPage(target)) {
    location.assign(target);
    return;
  }
  if (target.href === location.href) return;
  const isSameView = target.pathname === location.pathname;
  if (opts.replace) history.replaceState(history.state, "", target);
  else history.pushState({ from: location.pathname }, "", target);
  arrival.value = "go";
  if (!isSameView) scrollTo(0, 0);
  here.value = read();
}

/** Up to a list: back in time when one came from there, so that it is as it was left. */
export function goUp(href: string): void {
  const { from } = (history.state ?? {}) as { from?: string };
  if (from === new URL(href, location.href).pathname) history.back();
  else go(href);
}

/** Change some of the query and keep the rest; null takes one away. */
export function setQuery(changes: Record<string, string | null>, opts: { replace?: boolean } = {}): void {
  go(withQuery(changes), opts);
}

/** The address of this view with some of the query changed. */
export function withQuery(changes: Record<string, string | null>): string {
  const query = new URLSearchParams(here.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return here.value.path + (text && `?${text}`);
}

interface LinkProps {
  href: string;
  /** The way up to the list that this came from. */
  isUp?: boolean;
  children?: ComponentChildren;
  class?: string;
  title?: string;
  id?: string;
  target?: "_blank";
  tabIndex?: number;
  "aria-current"?: "page" | "true" | undefined;
  "aria-label"?: string | undefined;
  "aria-describedby"?: string | undefined;
}

/** A real link; a plain click stays in the page. */
export function Link({ href, isUp, children, ...rest }: LinkProps): JSX.Element {
  return (
    <a href={href} onClick={(event) => follow(event, href, isUp ? goUp : go)} {...rest}>
      {children}
    </a>
  );
}

function follow(event: MouseEvent, href: string, walk: (href: string) => void): void {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!isPlain || event.defaultPrevented || !isPage(new URL(href, location.href))) return;
  const target = event.currentTarget as HTMLAnchorElement;
  if (target.target && target.target !== "_self") return;
  event.preventDefault();
  walk(href);
}

function isPage(target: URL): boolean {
  return target.origin === location.origin && PAGES.has(target.pathname.split("/")[1] ?? "");
}

function read(): Route {
  const path = location.pathname;
  return { path, parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(location.search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
