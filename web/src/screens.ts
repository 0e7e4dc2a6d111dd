// Screens: which screen an address shows, what it is called in the rail, and how it is loaded when needed.

import type { ComponentType } from "preact";
import type { Schemas } from "./api/types";
import type { Route } from "./core/router";
import type { IconName } from "./ui/icons";

type Load = () => Promise<{ default: ComponentType }>;

const loads = {
  overview: () => import("./screens/overview"),
  cursors: () => import("./screens/cursors"),
  cursor: () => import("./screens/cursor"),
  workers: () => import("./screens/workers"),
  dead: () => import("./screens/dead"),
  letter: () => import("./screens/letter"),
  runs: () => import("./screens/runs"),
  run: () => import("./screens/run"),
  outcomes: () => import("./screens/outcomes"),
  outcome: () => import("./screens/outcome"),
  keys: () => import("./screens/keys"),
  memory: () => import("./screens/memory"),
  experiments: () => import("./screens/experiments"),
  conversations: () => import("./screens/conversations"),
  alerts: () => import("./screens/alerts"),
  audit: () => import("./screens/audit"),
} satisfies Record<string, Load>;

export type ScreenName = keyof typeof loads;

export interface RailItem {
  href: string;
  title: string;
  icon: IconName;
  /** Pressed after `g`. */
  key: string;
  /** Which of the counts stands beside it, and whether it asks for a person. */
  count?: { name: Exclude<keyof Schemas["CountsResponse"], "as_of">; isLoud: boolean; what: string };
}

/** The rail, in groups; the first of each is the one that is asked for most. */
export const rail: { title: string; items: RailItem[] }[] = [
  { title: "Health", items: [{ href: "/", title: "Overview", icon: "overview", key: "o" }] },
  {
    title: "Workers",
    items: [
      { href: "/cursors", title: "Cursors", icon: "cursors", key: "c", count: { name: "parked", isLoud: false, what: "parked messages" } },
      { href: "/workers", title: "Workers", icon: "workers", key: "w" },
      { href: "/dead", title: "Dead letters", icon: "dead", key: "d", count: { name: "dead", isLoud: true, what: "dead letters" } },
    ],
  },
  {
    title: "Work",
    items: [
      { href: "/runs", title: "Runs", icon: "runs", key: "r" },
      { href: "/outcomes", title: "Outcomes", icon: "outcomes", key: "q", count: { name: "ambiguous", isLoud: true, what: "ambiguous outcomes" } },
      { href: "/keys", title: "Keys", icon: "keys", key: "k" },
    ],
  },
  {
    title: "Knowledge",
    items: [
      { href: "/memory", title: "Memory", icon: "memory", key: "m" },
      { href: "/experiments", title: "Lab", icon: "lab", key: "l" },
      { href: "/conversations", title: "Conversations", icon: "conversations", key: "s", count: { name: "conversations_dead", isLoud: true, what: "dead letters of conversations" } },
    ],
  },
  {
    title: "Watch",
    items: [
      { href: "/alerts", title: "Alerts", icon: "alerts", key: "a", count: { name: "alerts", isLoud: true, what: "alerts" } },
      { href: "/audit", title: "Audit", icon: "audit", key: "u" },
    ],
  },
];

/** Lists whose items have pages of their own, and how many segments such an address has at least. */
const details: Record<string, { name: ScreenName; segments: number }> = {
  cursors: { name: "cursor", segments: 2 },
  dead: { name: "letter", segments: 2 },
  runs: { name: "run", segments: 3 },
  outcomes: { name: "outcome", segments: 2 },
};

/** The screen of an address, or null when there is none. */
export function screenOf({ parts }: Route): ScreenName | null {
  const [first] = parts;
  if (first === undefined) return "overview";
  const detail = details[first];
  if (parts.length === 1) return first in loads && first !== "overview" && !isDetail(first) ? (first as ScreenName) : null;
  return detail && parts.length >= detail.segments ? detail.name : null;
}

function isDetail(name: string): boolean {
  return Object.values(details).some((each) => each.name === name);
}

const loaded = new Map<ScreenName, ComponentType>();

/** The component of a screen when it is here already. */
export function ready(name: ScreenName): ComponentType | undefined {
  return loaded.get(name);
}

export async function load(name: ScreenName): Promise<ComponentType> {
  const module: { default: ComponentType } = await loads[name]();
  loaded.set(name, module.default);
  return module.default;
}
