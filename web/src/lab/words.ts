// Words: metrics, sizes and positions as people read them. Pure.

import { NOTHING, plural } from "../core/format";
import type { Metrics } from "./models";

const MINUS = "−";

type MetricName = Exclude<keyof Metrics, "syncLabel">;

export interface MetricSpec {
  key: MetricName;
  name: string;
  digits: number;
  unit: string;
  /** Whether a larger value is better. */
  more: boolean;
}

/** The metrics of a run, in the order of every table. */
export const METRICS: MetricSpec[] = [
  { key: "syncRating", name: "Sync rating", digits: 1, unit: "", more: true },
  { key: "meanDriftMs", name: "Mean drift", digits: 0, unit: " ms", more: false },
  { key: "maxDriftMs", name: "Max drift", digits: 0, unit: " ms", more: false },
  { key: "captionOverall", name: "Captions", digits: 1, unit: "", more: true },
  { key: "captionCoverageRatio", name: "Caption coverage", digits: 2, unit: "", more: true },
  { key: "ocrConfidenceMean", name: "OCR confidence", digits: 2, unit: "", more: true },
  { key: "proxyScoreOverall", name: "Proxy score", digits: 1, unit: "", more: true },
];

/** A position in a video: 1:05. */
export function clock(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.floor(seconds) : 0;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** A number with its digits, or a dash. */
function number(value: unknown, digits = 0): string {
  return isNumber(value) ? value.toFixed(digits).replace("-", MINUS) : NOTHING;
}

/** A number with its sign, also when it is positive; zero has none. */
function signed(value: number, digits = 0): string {
  const rounded = Number(value.toFixed(digits));
  if (rounded === 0) return number(0, digits);
  return (rounded > 0 ? "+" : MINUS) + Math.abs(rounded).toFixed(digits);
}

/** 0.625 as 63 %. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** One metric of a run, with its unit. */
export function metric(spec: MetricSpec, value: unknown): string {
  return isNumber(value) ? number(value, spec.digits) + spec.unit : NOTHING;
}

/** The difference of one metric, variant minus baseline: its text, and whether it is better, worse or the same. */
export function delta(spec: MetricSpec, value: number): { text: string; kind: "better" | "worse" | "same" } {
  const text = signed(value, spec.digits) + spec.unit;
  const rounded = Number(value.toFixed(spec.digits));
  if (rounded === 0) return { text, kind: "same" };
  return { text, kind: rounded > 0 === spec.more ? "better" : "worse" };
}

export function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** A size in bytes, as people write it. */
export function bytes(size: unknown): string {
  if (!isNumber(size)) return "unknown size";
  if (size < 1024) return plural(size, "byte");
  return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} kB` : `${(size / 1024 / 1024).toFixed(1)} MB`;
}

/** The letter of a side: A, B, C. */
export function letter(index: number): string {
  return String.fromCharCode(65 + index);
}
