// Diffview: the difference of two texts: two columns where there is room, one below the other on a narrow screen.
// Signs as well as colours mark what differs.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../core/format";
import { Notice } from "../ui/bits";
import { diffLines, type DiffRow, diffWords, lines, type Part } from "./diff";

/** Equal lines that stay visible around a change; longer stretches are folded. */
const CONTEXT = 3;
const FOLD_MIN = 8;
const DIFFERING_ROWS_MAX = 4_000;

type Pair = [string, string];

export function DiffView({ texts, names }: { texts: Pair; names: Pair }): JSX.Element {
  const [[left, right], [leftName, rightName]] = [texts, names];
  if (left === right) return <Notice>{`${leftName} and ${rightName} are identical here.`}</Notice>;
  const [a, b] = [lines(left), lines(right)];
  const rows = diffLines(a, b);
  const differing = rows?.filter((row) => row.kind !== "same").length ?? 0;
  if (rows && !differing) return <Notice>{`${leftName} and ${rightName} differ only in their line ends.`}</Notice>;
  if (!rows || differing > DIFFERING_ROWS_MAX) {
    return <Notice>Too long or too different to show as a diff. Switch “Diff” off to read both texts beside each other.</Notice>;
  }
  const draw = (row: DiffRow, index: number): JSX.Element => <Row key={index} row={row} a={a} b={b} names={names} />;
  return (
    <div>
      <p class="hint">{`${plural(differing, "line")} differ. − is only in ${leftName}, + is only in ${rightName}.`}</p>
      <div class="diff" tabIndex={0} role="region" aria-label={`Diff of ${leftName} and ${rightName}`}>
        <div class="diff-row diff-head">
          <div class="diff-cell">{leftName}</div>
          <div class="diff-cell">{rightName}</div>
        </div>
        {folded(rows, draw)}
      </div>
    </div>
  );
}

/** Draw the rows, with long stretches of equal ones folded. */
function folded(rows: DiffRow[], draw: (row: DiffRow, index: number) => JSX.Element): JSX.Element[] {
  const out: JSX.Element[] = [];
  const add = (from: number, to: number): void => {
    for (let at = from; at < to; at += 1) out.push(draw(rows[at]!, at));
  };
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (end < rows.length && rows[end]!.kind === "same") end += 1;
    const from = at === 0 ? 0 : at + CONTEXT;
    const to = end === rows.length ? end : end - CONTEXT;
    if (to - from >= FOLD_MIN) {
      add(at, from);
      out.push(<Fold key={`fold${from}`} count={to - from}>{() => rows.slice(from, to).map((row, index) => draw(row, from + index))}</Fold>);
      add(to, end);
    } else {
      add(at, end);
    }
    for (at = end; at < rows.length && rows[at]!.kind !== "same"; at += 1) add(at, at + 1);
  }
  return out;
}

function Fold({ count, children }: { count: number; children: () => ComponentChildren }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return <>{children()}</>;
  return <button type="button" class="fold" onClick={() => setOpen(true)}>{`Show ${plural(count, "equal line")}`}</button>;
}

function Row({ row, a, b, names: [leftName, rightName] }: { row: DiffRow; a: string[]; b: string[]; names: Pair }): JSX.Element {
  const left = row.left === null ? null : a[row.left]!;
  const right = row.right === null ? null : b[row.right]!;
  if (row.kind === "same") {
    return <div class="diff-row same"><Cell sign=" " content={left ?? ""} /><Cell sign=" " content={right ?? ""} kind="twin" /></div>;
  }
  const [leftParts, rightParts] = left !== null && right !== null ? diffWords(left, right) : [left, right];
  return (
    <div class={`diff-row ${row.kind}-row`}>
      {leftParts === null ? <Filler /> : <Cell sign="−" content={leftParts} kind="removed" spoken={`only in ${leftName}: `} />}
      {rightParts === null ? <Filler /> : <Cell sign="+" content={rightParts} kind="added" spoken={`only in ${rightName}: `} />}
    </div>
  );
}

function Cell({ sign, content, kind = "", spoken }: { sign: string; content: string | Part[]; kind?: string; spoken?: string }): JSX.Element {
  return (
    <div class={`diff-cell ${kind}`}>
      <span class="sign" aria-hidden="true">{sign}</span>
      <span class="diff-text">
        {spoken && <span class="only-heard">{spoken}</span>}
        {typeof content === "string" ? content : content.map((part, index) => (part.changed ? <mark key={index}>{part.text}</mark> : part.text))}
      </span>
    </div>
  );
}

function Filler(): JSX.Element {
  return <div class="diff-cell filler" />;
}
