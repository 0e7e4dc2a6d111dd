// Documents: which documents runs have, paired by name over all sides, and how each is loaded. Knows
// nothing of how they are shown.

import { artifactPath, getText, Refused } from "./api.js";
import { veil } from "./veil.js";
import { bytes, sentence } from "./words.js";

/** A longer text is cut: nobody reads it here, and the page would crawl. */
export const CHARACTERS_MAX = 1_000_000;
const PARSED = [
  ["script", "Script"],
  ["timestamps", "Timestamps"],
  ["visuals", "Visuals"],
];
/** Files that have the same name in every run. */
const COMMON = /^(script|timestamps|visuals|score|(?:sync|caption)-report|caption-quality)(?:-attempt\d+)?\.json$/;
const GONE = "is gone or was changed since the import";

/**
 * Return `[{title, kind, parts}]`, one part per run: `{load}` or `{src}`, or `{problem}`. Files that a run
 * declares come first. When `blind`, names that only one side has are replaced by numbers.
 */
export function documentsOf(runs, blind) {
  return [...declared(runs, blind), ...parsed(runs, blind)];
}

function declared(runs, blind) {
  const names = [...new Set(runs.flatMap((run) => (run?.artifacts?.files ?? []).map((file) => file.name)))];
  return names.map((name, index) => {
    const files = runs.map((run) => run?.artifacts?.files?.find((file) => file.name === name) ?? null);
    const first = files.find(Boolean);
    return {
      name,
      title: titleOf(files, first, index, blind),
      kind: first.kind,
      parts: files.map((file, at) => declaredPart(runs[at], file, blind)),
    };
  });
}

function titleOf(files, first, index, blind) {
  const labels = new Set(files.map((file) => file?.label ?? null));
  const everywhere = files.every(Boolean);
  if (!blind || (everywhere && labels.size === 1)) return first.label || first.name;
  return everywhere ? first.name : `Document ${index + 1}`;
}

function declaredPart(run, file, blind) {
  if (!run) return { problem: "The run cannot be read." };
  if (!file) return { problem: "This side has no such file." };
  if (file.state === "missing") return { problem: "The run names this file, but it is not there." };
  if (file.state === "refused")
    return { problem: "This file may not be read: it is a link, or lies outside the run." };
  const src = artifactPath(run.runId, file.name);
  const load = blind ? () => getText(src).catch(hush) : () => getText(src);
  return { src, size: bytes(file.sizeBytes), load: once(load) };
}

/** What the server says of a file may name its path. */
function hush(error) {
  throw error instanceof Refused ? new Error(`it ${GONE}`) : error;
}

function parsed(runs, blind) {
  return PARSED.filter(([key]) =>
    runs.some((run) => run?.artifacts && (run.artifacts[key] ?? null) !== null),
  ).map(([key, title]) => ({
    title,
    kind: "json",
    parts: runs.map((run) => parsedPart(run, key, blind)),
  }));
}

function parsedPart(run, key, blind) {
  if (!run?.artifacts) return { problem: "The run cannot be read." };
  const value = run.artifacts[key] ?? null;
  const problem = (run.artifacts.problems ?? []).find((each) => each.name === `${key}.json`);
  if (value === null && problem)
    return { problem: blind ? hushed(problem, []) : `${key}.json ${problem.problem}.` };
  if (value === null) return { problem: `This side has no ${key}.json.` };
  const shown = blind ? veil(value, run.artifactsDir) : value;
  return { load: once(async () => JSON.stringify(shown, null, 2)) };
}

/** Load at most once, but again after a failure. */
function once(load) {
  let loading = null;
  return () => {
    loading ??= load().catch((error) => {
      loading = null;
      throw error;
    });
    return loading;
  };
}

/**
 * Sentences about what is wrong with a run's files; they never stand in the way of a rating. With all `runs` of
 * a comparison nobody shall learn which one it is: the server's own words are left out, they may name it.
 */
export function problemsOf(run, runs = null) {
  if (!run) return ["This run cannot be read. You can judge it all the same."];
  if (run.artifacts === null || run.artifacts === undefined) {
    const problem = runs
      ? `its directory ${GONE}, or this server may not read it`
      : (run.artifactsProblem ?? "its directory cannot be read");
    return [`${sentence(problem)} You can rate it all the same.`];
  }
  const problems = run.artifacts.problems ?? [];
  if (!runs) return problems.map(({ name, problem }) => `${name} ${problem}.`);
  const documents = declared(runs, true);
  return [...new Set(problems.map((each) => hushed(each, documents)))];
}

/** What is wrong with a file, in words that fit every side. */
function hushed({ name, problem }, documents) {
  const document = documents.find((each) => each.name === name);
  if (document) return `${document.title} cannot be shown.`;
  const [, common] = COMMON.exec(name) ?? [];
  if (common)
    return `${common}.json ${problem.startsWith("is not valid JSON") ? "is not valid JSON" : "cannot be read"}.`;
  if (name === "lab.json") return "Not everything in its lab.json can be used.";
  return name === "." ? "Its directory cannot be listed." : "Its video cannot be shown.";
}
