// Lanes: who held what, when. One lane for each, bars for spans, marks for moments; the same as sentences for
// who cannot see it.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { go } from "../core/router";
import { timeTicks, useWidth } from "./scales";

export interface Bar {
  /** Milliseconds of the wall clock. */
  from: number;
  to: number;
  text: string;
  kind: string;
  href?: string;
}

export interface LaneMark {
  at: number;
  text: string;
  kind: string;
}

export interface Lane {
  id: string;
  title: string;
  bars: Bar[];
  marks: LaneMark[];
}

interface LanesProps {
  label: string;
  from: number;
  to: number;
  lanes: Lane[];
}

const ROW = 22;
const GAP = 12;
const AXIS = 24;
const TITLE = 18;
const TABLE_ROWS_MAX = 300;

export function Lanes({ label, from, to, lanes }: LanesProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 640);
  const [isTable, setTable] = useState(false);
  const span = Math.max(1, to - from);
  const x = (at: number): number => Math.min(width, Math.max(0, ((at - from) / span) * width));
  let top = AXIS;
  const placed = lanes.map((lane) => {
    const rows = stack(lane.bars);
    const start = top;
    top += TITLE + Math.max(1, rows.length) * ROW + GAP;
    return { lane, rows, start };
  });

  return (
    <figure class="chart lanes">
      <figcaption>
        <span>{label}</span>
        <button type="button" class="quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? "Show as lanes" : "Show as a table"}
        </button>
      </figcaption>
      {isTable ? (
        <LaneTable label={label} lanes={lanes} />
      ) : (
        <div ref={box} class="chart-box">
          <svg role="group" aria-label={label} width={width} height={top} viewBox={`0 0 ${width} ${top}`}>
            <g class="axis" aria-hidden="true">
              {timeTicks(from, to, Math.max(2, Math.floor(width / 120))).map((tick) => (
                <g key={tick.at}>
                  <line x1={x(tick.at)} x2={x(tick.at)} y1={AXIS - 6} y2={top} />
                  <text x={x(tick.at)} y={12} text-anchor={x(tick.at) < 24 ? "start" : x(tick.at) > width - 24 ? "end" : "middle"}>{tick.text}</text>
                </g>
              ))}
            </g>
            {placed.map(({ lane, rows, start }) => (
              <g key={lane.id} class="lane" role="group" aria-label={lane.title}>
                <text class="lane-title" x={0} y={start + 12}>{lane.title}</text>
                <line class="lane-base" x1={0} x2={width} y1={start + TITLE + Math.max(1, rows.length) * ROW + 2} y2={start + TITLE + Math.max(1, rows.length) * ROW + 2} />
                {rows.map((bars, row) =>
                  bars.map((bar) => (
                    <BarShape key={`${bar.from} ${bar.text}`} bar={bar} x={x} y={start + TITLE + row * ROW} />
                  )),
                )}
                {lane.marks.map((mark, index) => (
                  <g key={index} class={`lane-mark ${mark.kind}`} role="img" aria-label={mark.text} transform={`translate(${x(mark.at)} ${start + TITLE - 2})`}>
                    <title>{mark.text}</title>
                    <path d={`M0 ${Math.max(1, rows.length) * ROW + 2}V0M-4.5 -4h9L0 4z`} />
                  </g>
                ))}
              </g>
            ))}
          </svg>
        </div>
      )}
    </figure>
  );
}

function BarShape({ bar, x, y }: { bar: Bar; x: (at: number) => number; y: number }): JSX.Element {
  const left = x(bar.from);
  const width = Math.max(3, x(bar.to) - left);
  const { href } = bar;
  const inside = (
    <>
      <title>{bar.text}</title>
      <rect x={left} y={y + 2} width={width} height={ROW - 4} rx={3} />
      {width > 40 && (
        <svg x={left} y={y} width={width} height={ROW} overflow="hidden" aria-hidden="true">
          <text x={6} y={ROW / 2 + 4}>{bar.text}</text>
        </svg>
      )}
    </>
  );
  if (!href) return <g class={`bar ${bar.kind}`} role="img" aria-label={bar.text}>{inside}</g>;
  return (
    <a
      class={`bar ${bar.kind}`}
      href={href}
      aria-label={bar.text}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(href);
      }}
    >
      {inside}
    </a>
  );
}

function LaneTable({ label, lanes }: { label: string; lanes: Lane[] }): JSX.Element {
  const lines = lanes
    .flatMap((lane) => [
      ...lane.bars.map((bar) => ({ lane: lane.title, at: bar.from, text: bar.text, to: bar.to })),
      ...lane.marks.map((mark) => ({ lane: lane.title, at: mark.at, text: mark.text, to: null })),
    ])
    .sort((a, b) => b.at - a.at)
    .slice(0, TABLE_ROWS_MAX);
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`${label} as a table`}>
      <table>
        <thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Lane</th><th scope="col">What</th></tr></thead>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index}>
              <td>{clock(line.at)}</td>
              <td>{line.to === null ? "" : clock(line.to)}</td>
              <th scope="row">{line.lane}</th>
              <td>{line.text}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Bars that overlap stand below each other, in as few rows as possible. */
function stack(bars: Bar[]): Bar[][] {
  const rows: Bar[][] = [];
  for (const bar of [...bars].sort((a, b) => a.from - b.from)) {
    const free = rows.find((row) => (row.at(-1)?.to ?? 0) <= bar.from);
    if (free) free.push(bar);
    else rows.push([bar]);
  }
  return rows;
}

function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}
