// Veil: takes out of a run's content what would tell which side it is: paths, the topic, and how it was
// made. Used until the comparison is submitted. Pure.

/** At the top of a document these describe the run; deeper down they may be what is judged. */
const TELLING_ON_TOP = /^(meta|metadata|title|topic|label|name|id)$/i;
const TELLING = /^(run_?id|variant|model|seed|generator|(.*_)?(path|dir|file)|.*(Path|Dir|File|Model|Seed))$/;
const PATH = /(?<![\w:/])(?:\/[\w.@~+-]+){2,}\/?/g;
const HIDDEN = "(hidden until submitted)";

/** A parsed JSON document without the keys that tell. */
export function veil(value, isTop = true) {
  if (typeof value === "string") return veilText(value);
  if (Array.isArray(value)) return value.map((each) => veil(each, false));
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(
    ([key]) => !TELLING.test(key) && !(isTop && TELLING_ON_TOP.test(key)),
  );
  return Object.fromEntries(kept.map(([key, each]) => [key, veil(each, false)]));
}

/** A sentence without paths of files in it. */
export function veilText(text) {
  return text.replace(PATH, HIDDEN);
}
