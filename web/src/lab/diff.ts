// Diff: the differences of two texts by lines, and of two lines by words. Pure: a longest common subsequence (Myers),
// bounded, so that two huge or entirely different texts never freeze the page.

const LINES_MAX = 20_000;
const CHANGES_MAX = 1_500;
const WORDS_MAX = 400;

/** Line numbers of both texts; null where a line has no partner. */
interface Step {
  left: number | null;
  right: number | null;
}

export interface DiffRow extends Step {
  kind: "same" | "changed" | "removed" | "added";
}

export interface Part {
  text: string;
  changed: boolean;
}

/** The lines of a text; the line break at the very end makes no further line. */
export function lines(text: string): string[] {
  const all = text.replace(/\r\n?/g, "\n").split("\n");
  if (all.length > 1 && all.at(-1) === "") all.pop();
  return all;
}

/** Return the rows of two columns, or null if the texts are too long or too different. */
export function diffLines(left: string[], right: string[]): DiffRow[] | null {
  if (left.length > LINES_MAX || right.length > LINES_MAX) return null;
  const script = compare(left, right, CHANGES_MAX);
  return script && pairUp(script);
}

/** Return the parts of both lines; each is one changed part if the lines are too long to compare by words. */
export function diffWords(left: string, right: string): [Part[], Part[]] {
  const [a, b] = [words(left), words(right)];
  const script = a.length <= WORDS_MAX && b.length <= WORDS_MAX ? compare(a, b, WORDS_MAX) : null;
  if (!script) return [[{ text: left, changed: true }], [{ text: right, changed: true }]];
  return [
    joined(script.flatMap((step) => (step.left === null ? [] : [{ text: a[step.left]!, changed: step.right === null }]))),
    joined(script.flatMap((step) => (step.right === null ? [] : [{ text: b[step.right]!, changed: step.left === null }]))),
  ];
}

function words(line: string): string[] {
  return line.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function joined(parts: Part[]): Part[] {
  const out: Part[] = [];
  for (const part of parts) {
    const last = out.at(-1);
    if (last?.changed === part.changed) last.text += part.text;
    else out.push({ ...part });
  }
  return out;
}

/** Equal items in order, and the rest as removed or added; null if there are too many changes. */
function compare(a: string[], b: string[], changesMax: number): Step[] | null {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const middle = myers(a.slice(start, endA), b.slice(start, endB), changesMax);
  if (!middle) return null;
  const shifted = (at: number | null): number | null => (at === null ? null : at + start);
  return [
    ...Array.from({ length: start }, (_, i) => ({ left: i, right: i })),
    ...middle.map(({ left, right }) => ({ left: shifted(left), right: shifted(right) })),
    ...Array.from({ length: a.length - endA }, (_, i) => ({ left: endA + i, right: endB + i })),
  ];
}

/** The shortest script of removals and additions, found diagonal by diagonal. */
function myers(a: string[], b: string[], changesMax: number): Step[] | null {
  const limit = Math.min(a.length + b.length, changesMax);
  const furthest = new Int32Array(2 * limit + 3);
  const middle = limit + 1;
  const trace: Int32Array[] = [];
  for (let d = 0; d <= limit; d += 1) {
    trace.push(furthest.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const isDown = k === -d || (k !== d && furthest[middle + k - 1]! < furthest[middle + k + 1]!);
      let x = isDown ? furthest[middle + k + 1]! : furthest[middle + k - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a.length, b.length, trace);
    }
  }
  return null;
}

function walkBack(lengthA: number, lengthB: number, trace: Int32Array[]): Step[] {
  const rows: Step[] = [];
  let [x, y] = [lengthA, lengthB];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const at = (k: number): number => trace[d]![k + d + 1]!;
    const k = x - y;
    const isDown = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromX = d === 0 ? 0 : isDown ? at(k + 1) : at(k - 1);
    const fromY = d === 0 ? 0 : fromX - (isDown ? k + 1 : k - 1);
    while (x > fromX && y > fromY) rows.push({ left: (x -= 1), right: (y -= 1) });
    if (d > 0) rows.push(isDown ? { left: null, right: (y -= 1) } : { left: (x -= 1), right: null });
  }
  return rows.reverse();
}

/** Removed lines beside the added ones that follow them read as changed lines. */
function pairUp(script: Step[]): DiffRow[] {
  const rows: DiffRow[] = [];
  const isSame = (step: Step | undefined): boolean => step !== undefined && step.left !== null && step.right !== null;
  for (let at = 0; at < script.length;) {
    const step = script[at]!;
    if (isSame(step)) {
      rows.push({ ...step, kind: "same" });
      at += 1;
      continue;
    }
    const [removed, added]: [number[], number[]] = [[], []];
    for (; at < script.length && !isSame(script[at]); at += 1) {
      const { left, right } = script[at]!;
      if (left !== null) removed.push(left);
      if (right !== null) added.push(right);
    }
    for (let i = 0; i < Math.max(removed.length, added.length); i += 1) {
      const [left, right] = [removed[i] ?? null, added[i] ?? null];
      rows.push({ left, right, kind: left === null ? "added" : right === null ? "removed" : "changed" });
    }
  }
  return rows;
}
