// Diff: the differences of two texts by lines, and of two lines by words. Pure: a longest common
// subsequence (Myers), bounded, so that two huge or entirely different texts never freeze the page.

const LINES_MAX = 20_000;
const CHANGES_MAX = 1_500;
const WORDS_MAX = 400;

/** The lines of a text; the line break at the very end makes no further line. */
export function lines(text) {
  const all = text.replace(/\r\n?/g, "\n").split("\n");
  if (all.length > 1 && all.at(-1) === "") all.pop();
  return all;
}

/**
 * Return rows `{left, right}` of line numbers (null where there is no partner, both where lines are equal
 * or were changed in place), with `kind` same, changed, removed or added; or null when it would be too much.
 */
export function diffLines(left, right) {
  if (left.length > LINES_MAX || right.length > LINES_MAX) return null;
  const script = compare(left, right, CHANGES_MAX);
  return script && pairUp(script);
}

/** Return `[leftParts, rightParts]`, each `{text, changed}`; all changed when lines are too long to look closer. */
export function diffWords(left, right) {
  const [a, b] = [words(left), words(right)];
  const script = a.length <= WORDS_MAX && b.length <= WORDS_MAX ? compare(a, b, WORDS_MAX) : null;
  if (!script) return [[{ text: left, changed: true }], [{ text: right, changed: true }]];
  return [
    joined(
      script
        .filter((row) => row.left !== null)
        .map((row) => ({ text: a[row.left], changed: row.right === null })),
    ),
    joined(
      script
        .filter((row) => row.right !== null)
        .map((row) => ({ text: b[row.right], changed: row.left === null })),
    ),
  ];
}

function words(line) {
  return line.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function joined(parts) {
  const out = [];
  for (const part of parts) {
    if (out.length && out.at(-1).changed === part.changed) out.at(-1).text += part.text;
    else out.push({ ...part });
  }
  return out;
}

/** Equal items in order, and the rest as removed or added; null when there are too many changes. */
function compare(a, b, changesMax) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const middle = myers(a.slice(start, endA), b.slice(start, endB), changesMax);
  if (!middle) return null;
  const same = (i, j) => ({ left: i, right: j });
  return [
    ...Array.from({ length: start }, (_, i) => same(i, i)),
    ...middle.map((row) => ({
      left: row.left === null ? null : row.left + start,
      right: row.right === null ? null : row.right + start,
    })),
    ...Array.from({ length: a.length - endA }, (_, i) => same(endA + i, endB + i)),
  ];
}

/** The shortest script of removals and additions, found diagonal by diagonal. */
function myers(a, b, changesMax) {
  const limit = Math.min(a.length + b.length, changesMax);
  const furthest = new Int32Array(2 * limit + 3);
  const middle = limit + 1;
  const trace = [];
  for (let d = 0; d <= limit; d += 1) {
    trace.push(furthest.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && furthest[middle + k - 1] < furthest[middle + k + 1]);
      let x = down ? furthest[middle + k + 1] : furthest[middle + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a.length, b.length, trace);
    }
  }
  return null;
}

function walkBack(lengthA, lengthB, trace) {
  const rows = [];
  let [x, y] = [lengthA, lengthB];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const at = (k) => trace[d][k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromX = d === 0 ? 0 : down ? at(k + 1) : at(k - 1);
    const fromY = d === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY) rows.push({ left: (x -= 1), right: (y -= 1) });
    if (d > 0) rows.push(down ? { left: null, right: (y -= 1) } : { left: (x -= 1), right: null });
  }
  return rows.reverse();
}

/** Removed lines beside the added ones that follow them read as changed lines. */
function pairUp(script) {
  const rows = [];
  for (let at = 0; at < script.length;) {
    if (script[at].left !== null && script[at].right !== null) {
      rows.push({ ...script[at], kind: "same" });
      at += 1;
      continue;
    }
    const [removed, added] = [[], []];
    for (; at < script.length && (script[at].left === null || script[at].right === null); at += 1) {
      if (script[at].right === null) removed.push(script[at].left);
      else added.push(script[at].right);
    }
    for (let i = 0; i < Math.max(removed.length, added.length); i += 1) {
      const [left, right] = [removed[i] ?? null, added[i] ?? null];
      const kind = left === null ? "added" : right === null ? "removed" : "changed";
      rows.push({ left, right, kind });
    }
  }
  return rows;
}
