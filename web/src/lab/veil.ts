// Veil: removes from a run's content what would tell which side it is: paths, the topic, and how it was made. Used
// until the comparison is submitted. Pure.

/** At the top of a document these keys describe the run; deeper down they may be what is judged. */
const TELLING_ON_TOP = /^(meta|metadata|title|topic|label|name|id)$/i;
const TELLING = /^(run_?id|variant|model|seed|generator|(.*_)?(path|dir|file)|.*(Path|Dir|File|Model|Seed))$/;
const PATH = /(?:file:\/\/|(?<![\p{L}\p{N}_:/]))(?:\/[\p{L}\p{M}\p{N}_.@~+%-]+){2,}\/?/gu;
const HIDDEN = "(hidden until submitted)";

/** A parsed JSON document of the run in `directory`, without the keys and the paths that tell. */
export function veil(value: unknown, directory: string, isTop = true): unknown {
  if (typeof value === "string") return veilText(value, directory);
  if (Array.isArray(value)) return value.map((each) => veil(each, directory, false));
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([key]) => !TELLING.test(key) && !(isTop && TELLING_ON_TOP.test(key)));
  return Object.fromEntries(kept.map(([key, each]) => [key, veil(each, directory, false)]));
}

/** A text without paths. The run's own path may contain spaces, where no pattern would find its end. */
function veilText(text: string, directory: string): string {
  return (directory ? text.replaceAll(directory, HIDDEN) : text).replace(PATH, HIDDEN);
}
