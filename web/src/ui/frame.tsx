// Frame: everything around a screen, the keys that work everywhere, and what is shown when a screen is not
// there or breaks.

import { Component, type ComponentChildren, type ComponentType, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, asApiError } from "../core/api";
import { hasLetters, pending, useKeys, type KeyMap } from "../core/keys";
import { connection, togglePause } from "../core/live";
import { go, route } from "../core/router";
import { nextTheme } from "../core/theme";
import { load, rail, ready, screenOf, type ScreenName } from "../screens";
import { Banner } from "./banner";
import { ErrorBox, Skeleton } from "./bits";
import { Help } from "./help";
import { Missing } from "./missing";
import { copyLink, Palette } from "./palette";
import { Rail } from "./rail";
import { Toasts } from "./toasts";
import { Token } from "./token";
import { Topbar } from "./topbar";

export function Frame(): JSX.Element {
  const [open, setOpen] = useState<"help" | "palette" | null>(null);
  const help = (): void => setOpen("help");
  const palette = (): void => setOpen("palette");
  const close = (): void => setOpen(null);
  useKeys(
    {
      "?": { text: "Show all shortcuts", run: help },
      "Ctrl+k": { text: "Go to a screen, or find by name", run: palette },
      "/": { text: "Search", run: palette },
      p: { text: "Pause or resume live updates", run: togglePause },
      t: { text: "Change the theme", run: nextTheme },
      y: { text: "Copy the link to this view", run: copyLink },
    },
    "Everywhere",
  );
  useKeys(GOING, "Go to");
  useStaleMark();
  const name = screenOf(route.value);
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <Rail />
      <Topbar onPalette={palette} onHelp={help} />
      <main id="main" tabIndex={-1}>
        <Banner />
        <Boundary key={route.value.path}>{name ? <Loaded key={route.value.path} name={name} /> : <Missing />}</Boundary>
      </main>
      <Toasts />
      <Pending />
      {open === "help" && <Help onClose={close} />}
      {open === "palette" && <Palette onClose={close} onHelp={help} />}
      <Token />
    </>
  );
}

const GOING: KeyMap = Object.fromEntries(
  rail.flatMap((group) => group.items).map((item) => [`g ${item.key}`, { text: item.title, run: () => go(item.href) }]),
);

/** For the sheets: what is old is grey, and keys that are off are not offered. */
function useStaleMark(): void {
  const isStale = connection.value === "stale" || connection.value === "offline";
  const hasKeys = hasLetters.value;
  useEffect(() => {
    document.body.classList.toggle("is-stale", isStale);
    document.body.classList.toggle("no-letters", !hasKeys);
  }, [isStale, hasKeys]);
}

/** What can follow the key that was pressed. */
function Pending(): JSX.Element | null {
  if (!pending.value) return null;
  return (
    <div class="pending" aria-hidden="true">
      {Object.entries(GOING).filter(([key]) => key.startsWith(`${pending.value} `)).map(([key, { text }]) => (
        <span key={key}><kbd>{key.slice(pending.value.length + 1)}</kbd> {text}</span>
      ))}
    </div>
  );
}

/** A screen, as soon as it is here. */
function Loaded({ name }: { name: ScreenName }): JSX.Element {
  const [Screen, setScreen] = useState<ComponentType | undefined>(() => ready(name));
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    if (Screen) return;
    load(name)
      .then((found) => setScreen(() => found))
      .catch((problem: unknown) => setError(notLoaded(problem)));
  }, [name]);
  if (Screen) return <Screen />;
  return error ? <ErrorBox error={error} onRetry={() => location.reload()} /> : <Skeleton />;
}

function notLoaded(problem: unknown): ApiError {
  const fix = "see whether `onceward up` still runs, then try again; after an update reload the page";
  return new ApiError(0, "PAGE", "this screen could not be loaded", { fix, detail: asApiError(problem).message }, route.peek().path);
}

/** A screen that breaks takes nothing else with it. */
class Boundary extends Component<{ children: ComponentChildren }, { error: ApiError | null }> {
  override state: { error: ApiError | null } = { error: null };

  static override getDerivedStateFromError(problem: unknown): { error: ApiError } {
    const context = { fix: "reload the page; if it happens again, pass the details on", detail: asApiError(problem).message };
    return { error: new ApiError(0, "PAGE", "this screen broke", context, location.pathname + location.search) };
  }

  override componentDidCatch(problem: unknown): void {
    console.error(problem);
  }

  override render(): ComponentChildren {
    const { error } = this.state;
    return error ? <ErrorBox error={error} onRetry={() => this.setState({ error: null })} /> : this.props.children;
  }
}
