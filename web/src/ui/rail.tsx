// Rail: links to every screen, with the counts that may need attention. On narrow screens a bar at the
// bottom, with the rest behind "More".

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Schemas } from "../api/types";
import { config } from "../core/api";
import { count } from "../core/format";
import { useKeys } from "../core/keys";
import { connection, useLive } from "../core/live";
import { Link, route } from "../core/router";
import { rail, type RailItem } from "../screens";
import { Icon, Mark } from "./icons";

type Counts = Schemas["CountsResponse"];

/** Those that stay at the bottom of a narrow screen. */
const MAIN = new Set(["/", "/cursors", "/runs", "/dead"]);
/** They are tallied in the background, so the news of a change may come before its count. */
const COUNTS_MS = 10_000;

export function Rail(): JSX.Element {
  const { data: counts, reload } = useLive<Counts>(["dead", "outcomes", "alerts", "cursors", "dispatch"], "/api/console/counts");
  const [isOpen, setOpen] = useState(false);
  const here = `/${route.value.parts[0] ?? ""}`;
  useEffect(() => setOpen(false), [route.value.path]);
  useKeys(isOpen ? { Escape: { text: "Close the menu", run: () => setOpen(false) } } : {}, "Menu");
  useEffect(() => {
    const timer = setInterval(() => {
      if (connection.value === "live" && document.visibilityState === "visible") reload();
    }, COUNTS_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <nav class={isOpen ? "rail is-open" : "rail"} aria-label="Screens">
      <Link class="brand" href="/">
        <Mark size={24} />
        <span>Onceward</span>
      </Link>
      {rail.map((group) => (
        <ul key={group.title} class="rail-group" aria-label={group.title}>
          {group.items.map((item) => (
            <li key={item.href}><Item item={item} isHere={item.href === here} counts={counts} /></li>
          ))}
        </ul>
      ))}
      <button type="button" class="rail-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name={isOpen ? "close" : "menu"} size={18} />
        {isOpen ? "Close" : "More"}
      </button>
      <p class="rail-foot">{config.value && `Version ${config.value.version}`}</p>
    </nav>
  );
}

function Item({ item, isHere, counts }: { item: RailItem; isHere: boolean; counts: Counts | undefined }): JSX.Element {
  const many = item.count && counts?.[item.count.name];
  return (
    <Link
      class={MAIN.has(item.href) ? "rail-item is-main" : "rail-item"}
      href={item.href}
      title={`${item.title} (g ${item.key})`}
      aria-current={isHere ? "page" : undefined}
    >
      <Icon name={item.icon} size={17} />
      <span class="title">{item.title}</span>
      {many ? (
        <span class={item.count?.isLoud ? "badge loud" : "badge"}>
          {count(many)}
          <span class="only-heard"> {item.count?.what}</span>
        </span>
      ) : null}
    </Link>
  );
}
