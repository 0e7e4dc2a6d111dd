// Models: what the Lab tells about runs, comparisons and results; and how they are called.

import type { Schemas } from "../../api/types";

export type Run = Schemas["LabRunItem"];
export type Experiment = Schemas["ExperimentItem"];
export type Standing = Schemas["VariantStatsItem"];
export type Results = Schemas["ExperimentResultsBody"];

export function isOpen(experiment: Experiment): boolean {
  return experiment.status !== "done" && experiment.status !== "failed";
}

export function nameOfRun(run: Run): string {
  return run.topic || (run.artifactsDir.split("/").filter(Boolean).pop() ?? run.artifactsDir);
}

export function nameOfExperiment(experiment: Experiment): string {
  return experiment.name ?? experiment.topic ?? "Comparison without a name";
}

/** What a decided comparison came to, in words. */
export function outcomeOf({ outcome, winner, variants }: Experiment): string {
  if (outcome === "tie") return "a tie";
  if (outcome === "both_bad") return variants.length > 1 ? "all bad" : "both bad";
  if (!winner) return "no outcome";
  return winner.variantId === "baseline" ? "baseline" : (variants.find((each) => each.variantId === winner.variantId)?.label ?? winner.variantId);
}

export const reviewPage = (runId: string): string => `/lab/review/${encodeURIComponent(runId)}`;
export const comparePage = (experimentId: string): string => `/lab/compare/${encodeURIComponent(experimentId)}`;

/** The pages of the Lab that are shown inside, by the tab that they belong to. */
const PAGES: [RegExp, string][] = [
  [/^\/lab\/review\/[^/]+\/?$/, "review"],
  [/^\/lab\/compare\/[^/]+\/?$/, "compare"],
  [/^\/lab\/results\/?$/, "results"],
  [/^\/lab\/?$/, "new"],
];

/** The tab of a page of the Lab, or null: what an address asks for is shown only if it is one. */
export function tabOf(page: string | null): string | null {
  const path = page?.split("?")[0] ?? "";
  return PAGES.find(([pattern]) => pattern.test(path))?.[1] ?? null;
}

/** The address in the console where a page of the Lab is shown. */
export function hrefOf(page: string): string {
  const tab = tabOf(page) ?? "new";
  const query = new URLSearchParams(tab === "results" ? { tab } : { tab, page });
  return `/experiments?${query.toString()}`;
}
