// Documents: which documents runs have, paired by name over all sides, and how each is loaded. Knows nothing of how
// they are shown.

import { ApiError, getText } from "../core/api";
import { sentence } from "../core/format";
import { artifactPath, type RunDetail } from "./models";
import { veil } from "./veil";
import { bytes } from "./words";

/** A longer text is cut: a page that holds all of it would freeze. */
export const CHARACTERS_MAX = 1_000_000;
const PARSED = [["script", "Script"], ["timestamps", "Timestamps"], ["visuals", "Visuals"]] as const;
/** Files that have the same name in every run. */
const COMMON = /^(script|timestamps|visuals|score|(?:sync|caption)-report|caption-quality)(?:-attempt\d+)?\.json$/;
const GONE = "is gone or was changed since the import";

type Artifacts = NonNullable<RunDetail["artifacts"]>;
type DeclaredFile = Artifacts["files"][number];
type FileProblem = NonNullable<Artifacts["problems"]>[number];
type MaybeRun = RunDetail | null;

/** What one run has of a document: a text to load, an address (declared files), or a problem. */
export interface DocumentPart {
  load?: () => Promise<string>;
  src?: string;
  size?: string;
  problem?: string;
}

export interface LabDocument {
  name?: string;
  title: string;
  kind: string;
  /** One for each run. */
  parts: DocumentPart[];
}

/** Return the documents of the runs; files that a run declares come first. `isBlind`: no name tells a side. */
export function documentsOf(runs: MaybeRun[], isBlind: boolean): LabDocument[] {
  return [...declared(runs, isBlind), ...parsed(runs, isBlind)];
}

function filesOf(run: MaybeRun): DeclaredFile[] {
  return run?.artifacts?.files ?? [];
}

function declared(runs: MaybeRun[], isBlind: boolean): LabDocument[] {
  const names = [...new Set(runs.flatMap((run) => filesOf(run).map((file) => file.name)))];
  return names.map((name, index) => {
    const files = runs.map((run) => filesOf(run).find((file) => file.name === name) ?? null);
    const first = files.find((file) => file !== null)!;
    return {
      name,
      title: titleOf(files, first, index, isBlind),
      kind: first.kind,
      parts: files.map((file, at) => declaredPart(runs[at] ?? null, file, isBlind)),
    };
  });
}

/** A name or a label that only one side has would tell which side it is: a number replaces it. */
function titleOf(files: (DeclaredFile | null)[], first: DeclaredFile, index: number, isBlind: boolean): string {
  const labels = new Set(files.map((file) => file?.label ?? null));
  const isEverywhere = files.every(Boolean);
  if (!isBlind || (isEverywhere && labels.size === 1)) return first.label || first.name;
  return isEverywhere ? first.name : `Document ${index + 1}`;
}

function declaredPart(run: MaybeRun, file: DeclaredFile | null, isBlind: boolean): DocumentPart {
  if (!run) return { problem: "The run cannot be read." };
  if (!file) return { problem: "This side has no such file." };
  if (file.state === "missing") return { problem: "The run names this file, but it is not there." };
  if (file.state === "refused") return { problem: "This file may not be read: it is a link, or lies outside the run." };
  const src = artifactPath(run.runId, file.name);
  const load = isBlind ? () => getText(src).catch(hush) : () => getText(src);
  return { src, size: bytes(file.sizeBytes), load: once(load) };
}

/** The server's message about a file may contain its path. */
function hush(error: unknown): never {
  throw error instanceof ApiError && error.status !== 0 ? new Error(`it ${GONE}`) : error;
}

function parsed(runs: MaybeRun[], isBlind: boolean): LabDocument[] {
  return PARSED.filter(([key]) => runs.some((run) => run?.artifacts && (run.artifacts[key] ?? null) !== null)).map(([key, title]) => ({
    title,
    kind: "json",
    parts: runs.map((run) => parsedPart(run, key, isBlind)),
  }));
}

function parsedPart(run: MaybeRun, key: "script" | "timestamps" | "visuals", isBlind: boolean): DocumentPart {
  if (!run?.artifacts) return { problem: "The run cannot be read." };
  const value = run.artifacts[key] ?? null;
  const problem = (run.artifacts.problems ?? []).find((each) => each.name === `${key}.json`);
  if (value === null && problem) return { problem: isBlind ? hushed(problem, []) : `${key}.json ${problem.problem}.` };
  if (value === null) return { problem: `This side has no ${key}.json.` };
  const shown = isBlind ? veil(value, run.artifactsDir) : value;
  return { load: once(async () => JSON.stringify(shown, null, 2)) };
}

/** Load at most once, but again after a failure. */
function once(load: () => Promise<string>): () => Promise<string> {
  let loading: Promise<string> | null = null;
  return () => {
    loading ??= load().catch((error: unknown) => {
      loading = null;
      throw error;
    });
    return loading;
  };
}

/** Return what is wrong with a run's files, as sentences. */
export function problemsOf(run: RunDetail): string[] {
  if (!run.artifacts) return [cannotRead(run.artifactsProblem ?? "its directory cannot be read")];
  return (run.artifacts.problems ?? []).map(({ name, problem }) => `${name} ${problem}.`);
}

/** The same for a side of a comparison, in words that do not tell which run it is: the server's own might. */
export function blindProblemsOf(run: MaybeRun, runs: MaybeRun[]): string[] {
  if (!run) return ["This run cannot be read. You can judge it all the same."];
  if (!run.artifacts) return [cannotRead(`its directory ${GONE}, or this server may not read it`)];
  const documents = declared(runs, true);
  return [...new Set((run.artifacts.problems ?? []).map((each) => hushed(each, documents)))];
}

function cannotRead(problem: string): string {
  return `${sentence(problem)} You can rate it all the same.`;
}

/** What is wrong with a file, in words that fit every side. */
function hushed({ name, problem }: FileProblem, documents: LabDocument[]): string {
  const document = documents.find((each) => each.name === name);
  if (document) return `${document.title} cannot be shown.`;
  const common = COMMON.exec(name)?.[1];
  if (common) return `${common}.json ${problem.startsWith("is not valid JSON") ? "is not valid JSON" : "cannot be read"}.`;
  if (name === "lab.json") return "Not everything in its lab.json can be used.";
  return name === "." ? "Its directory cannot be listed." : "Its video cannot be shown.";
}
