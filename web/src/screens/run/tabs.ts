// Tabs: the ways to look at one run, and their addresses.

import { runHref, type RunDetail } from "./models";

export const TABS = [
  { id: "timeline", title: "Timeline" },
  { id: "commands", title: "Commands" },
  { id: "journal", title: "Journal" },
  { id: "artifacts", title: "Artifacts" },
  { id: "explain", title: "Explain" },
] as const;

export type TabId = (typeof TABS)[number]["id"];

export function tabHref(run: RunDetail, tab: TabId, more: Record<string, string> = {}): string {
  const place = runHref({ run_id: run.summary.run_id, workspace: run.workspace });
  return `${place}?${new URLSearchParams({ tab, ...more })}`;
}

/** How the run's own API routes name it. */
export function runParams(run: RunDetail): { workspace: string; run: string } {
  return { workspace: run.workspace.id, run: run.summary.run_id };
}
