// Sentences: times, counts and errors as people read them. Pure; knows no page.

const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** Say how long ago something was. */
export function ago(iso, now = Date.now()) {
  const seconds = (Date.parse(iso) - now) / 1000;
  if (!Number.isFinite(seconds)) return "at an unknown time";
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return "just now";
}

/** Say when exactly something was, with its zone. */
export function exactly(iso) {
  const time = Date.parse(iso);
  return Number.isFinite(time) ? absolute.format(time) : String(iso);
}

/** 1 run, 2 runs. */
export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

/** A text as a sentence of its own. */
export function sentence(text) {
  const line = String(text).trim();
  const end = /[.!?]$/.test(line) ? "" : ".";
  return line.charAt(0).toUpperCase() + line.slice(1) + end;
}

/** What went wrong, without the name that the field has in requests: people see the field itself. */
export function problem({ field, message }) {
  return sentence(field && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message);
}

/** What went wrong, and what now. */
export function said(error) {
  const { field, fix } = error;
  return !fix || fix === `correct ${field}` ? problem(error) : `${problem(error)} ${sentence(fix)}`;
}
