// Models: what the Lab's server answers, what runs and comparisons are called, and the addresses of its pages.

import type { Schemas } from "../api/types";

export type LabConfig = Schemas["LabConfig"];
export type Run = Schemas["LabRunItem"];
export type RunDetail = Schemas["RunDetail"];
export type Experiment = Schemas["ExperimentItem"];
export type ExperimentDetail = Schemas["ExperimentDetail"];
export type Question = Schemas["ExperimentQuestion"];
export type Results = Schemas["ExperimentResultsBody"];
export type Standing = Schemas["VariantStatsItem"];
export type Metrics = Schemas["AutoMetrics"];

export interface LabPage<T> {
  items: T[];
  nextCursor: string | null;
}

export function isOpen(experiment: Experiment): boolean {
  return experiment.status !== "done" && experiment.status !== "failed";
}

export function nameOfRun(run: Pick<Run, "topic" | "artifactsDir">): string {
  return run.topic || (run.artifactsDir.split("/").filter(Boolean).pop() ?? run.artifactsDir);
}

export function nameOfExperiment(experiment: Pick<Experiment, "name" | "topic">): string {
  return experiment.name ?? experiment.topic ?? "Comparison without a name";
}

/** The questions of an experiment, as the request that created it has them. */
export function questionsOf(experiment: Pick<Experiment, "questions">): Question[] {
  return (experiment.questions ?? []) as unknown as Question[];
}

export const runPath = (runId: string): string => `/api/runs/${encodeURIComponent(runId)}`;
export const experimentPath = (experimentId: string): string => `/api/experiments/${encodeURIComponent(experimentId)}`;
export const artifactPath = (runId: string, name: string): string => `${runPath(runId)}/artifact/${name.split("/").map(encodeURIComponent).join("/")}`;

export const RUNS_PAGE = "/lab";
export const RESULTS_PAGE = "/lab/results";
export const reviewPage = (runId: string): string => `/lab/review/${encodeURIComponent(runId)}`;
export const comparePage = (experimentId: string): string => `/lab/compare/${encodeURIComponent(experimentId)}`;

export type PageName = "runs" | "results" | "review" | "compare";

/** How strict a page is, as its address says. The names are those of the original Lab's page. */
export interface Modes {
  /** Each run needs an overall rating. */
  requireOverall: boolean;
  /** A side has to win: there is no tie, and not all may be bad. */
  goodBadMode: boolean;
}

export interface PageAddress {
  name: PageName;
  /** The run of a review, the experiment of a comparison. */
  id: string;
  modes: Modes;
}

const PAGES: [RegExp, PageName][] = [
  [/^\/lab\/review\/([^/]+)\/?$/, "review"],
  [/^\/lab\/compare\/([^/]+)\/?$/, "compare"],
  [/^\/lab\/results\/?$/, "results"],
  [/^\/lab\/?$/, "runs"],
];
const YES = ["1", "true", "yes", "on"];

/** Which page of the Lab a path with its query means, or null if it is none. */
export function parsePage(page: string | null): PageAddress | null {
  const [path = "", query = ""] = (page ?? "").split("?");
  for (const [pattern, name] of PAGES) {
    const found = pattern.exec(path);
    if (found) return { name, id: decoded(found[1] ?? ""), modes: modesOf(new URLSearchParams(query)) };
  }
  return null;
}

function modesOf(query: URLSearchParams): Modes {
  const is = (name: string): boolean => YES.includes((query.get(name) ?? "").toLowerCase());
  return { requireOverall: is("requireOverall"), goodBadMode: is("goodBadMode") };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
