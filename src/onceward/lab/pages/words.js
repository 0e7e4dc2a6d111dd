// Words: numbers and metrics as people read them, and what all pages say. Pure; knows no page.

import { plural } from "./sentences.js";

export * from "./sentences.js";

const MINUS = "−";

/** The metrics of a run: name, digits, unit, and whether more of it is better. */
export const METRICS = [
  { key: "syncRating", name: "Sync rating", digits: 1, unit: "", more: true },
  { key: "meanDriftMs", name: "Mean drift", digits: 0, unit: " ms", more: false },
  { key: "maxDriftMs", name: "Max drift", digits: 0, unit: " ms", more: false },
  { key: "captionOverall", name: "Captions", digits: 1, unit: "", more: true },
  { key: "captionCoverageRatio", name: "Caption coverage", digits: 2, unit: "", more: true },
  { key: "ocrConfidenceMean", name: "OCR confidence", digits: 2, unit: "", more: true },
  { key: "proxyScoreOverall", name: "Proxy score", digits: 1, unit: "", more: true },
];

/** A position in a video: 1:05. */
export function clock(seconds) {
  const whole = Number.isFinite(seconds) ? Math.floor(seconds) : 0;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** A number with its digits, or a dash. */
export function number(value, digits = 0) {
  return isNumber(value) ? value.toFixed(digits).replace("-", MINUS) : "–";
}

/** A number with its sign, also when it is positive; zero has none. */
export function signed(value, digits = 0) {
  const rounded = Number(value.toFixed(digits));
  if (rounded === 0) return number(0, digits);
  return (rounded > 0 ? "+" : MINUS) + Math.abs(rounded).toFixed(digits);
}

/** 0.625 as 63 %. */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** One metric of a run, with its unit. */
export function metric(spec, value) {
  return isNumber(value) ? number(value, spec.digits) + spec.unit : "–";
}

/** The difference of one metric, variant minus baseline: text, and better, worse or same. */
export function delta(spec, value) {
  const text = signed(value, spec.digits) + spec.unit;
  const rounded = Number(value.toFixed(spec.digits));
  if (rounded === 0) return { text, kind: "same" };
  return { text, kind: rounded > 0 === spec.more ? "better" : "worse" };
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** A size as people write it. */
export function bytes(size) {
  if (!isNumber(size)) return "unknown size";
  if (size < 1024) return plural(size, "byte");
  return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} kB` : `${(size / 1024 / 1024).toFixed(1)} MB`;
}

/** The last part of a path, which is how people call a directory. */
export function lastPart(path) {
  return path.split("/").filter(Boolean).pop() ?? path;
}

/** The letter of a side: A, B, C. */
export function letter(index) {
  return String.fromCharCode(65 + index);
}
