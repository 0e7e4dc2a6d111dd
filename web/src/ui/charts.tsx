// Charts: small drawings with names. Each says in words what it shows, and the large ones show their numbers
// as a table to who asks.

import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { count, exact } from "../core/format";
import { nearest, range, ticks, timeTicks, useWidth } from "./scales";

export { Lanes } from "./lanes";
export type { Bar, Lane, LaneMark } from "./lanes";

const SPARK = { width: 96, height: 22 };

/** A line without axes, for a cell. */
export function Spark({ values, label }: { values: number[]; label: string }): JSX.Element {
  const { min, max } = range(values);
  const step = SPARK.width / Math.max(1, values.length - 1);
  const y = (value: number): number => SPARK.height - 2 - ((value - min) / (max - min)) * (SPARK.height - 4);
  const points = values.map((value, index) => `${round(index * step)},${round(y(value))}`).join(" ");
  return (
    <svg class="spark" role="img" aria-label={`${label}: ${trend(values)}`} viewBox={`0 0 ${SPARK.width} ${SPARK.height}`} width={SPARK.width} height={SPARK.height}>
      {values.length > 1 && <polyline points={points} />}
    </svg>
  );
}

export interface Point {
  /** Milliseconds of the wall clock. */
  x: number;
  y: number | null;
}

export interface Mark {
  x: number;
  text: string;
  kind?: string;
}

interface LineChartProps {
  label: string;
  points: Point[];
  marks?: Mark[];
  yLabel: string;
  /** How a value is written; exact numbers when not given. */
  format?: (y: number) => string;
}

const EDGE = { top: 10, right: 12, bottom: 22, left: 52 };
const HEIGHT = 200;
const TABLE_ROWS_MAX = 200;

/** One value over time, with marks for what happened. */
export function LineChart({ label, points, marks = [], yLabel, format = count }: LineChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 640);
  const [hovered, setHovered] = useState<number | null>(null);
  const [isTable, setTable] = useState(false);
  const id = useId();
  const known = points.filter((point): point is { x: number; y: number } => point.y !== null);
  const summary = summaryOf(label, known, marks, yLabel, format);
  if (known.length === 0) return <p class="hint">{label}: nothing measured yet.</p>;

  const xs = range([...points, ...marks].map((each) => each.x));
  const ys = range([...known.map((point) => point.y), 0].slice(0, known.some((point) => point.y < 0) ? -1 : undefined));
  const x = (ms: number): number => EDGE.left + ((ms - xs.min) / (xs.max - xs.min)) * (width - EDGE.left - EDGE.right);
  const y = (value: number): number => HEIGHT - EDGE.bottom - ((value - ys.min) / (ys.max - ys.min)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const pointed = hovered === null ? undefined : known[hovered];

  return (
    <figure class="chart">
      <figcaption>
        <span id={id}>{label}</span>
        <button type="button" class="quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? "Show as a chart" : "Show as a table"}
        </button>
      </figcaption>
      {isTable ? (
        <NumbersTable label={label} points={known} yLabel={yLabel} format={format} />
      ) : (
        <div ref={box} class="chart-box">
          <svg
            role="img"
            aria-label={summary}
            width={width}
            height={HEIGHT}
            viewBox={`0 0 ${width} ${HEIGHT}`}
            onPointerMove={(event) => setHovered(nearest(known, event, box.current, x))}
            onPointerLeave={() => setHovered(null)}
          >
            <g class="axis">
              {ticks(ys.min, ys.max, 4).map((value) => (
                <g key={value}>
                  <line x1={EDGE.left} x2={width - EDGE.right} y1={y(value)} y2={y(value)} />
                  <text x={EDGE.left - 8} y={y(value) + 4} text-anchor="end">{format(value)}</text>
                </g>
              ))}
              {timeTicks(xs.min, xs.max, Math.max(2, Math.floor(width / 100))).map((tick) => (
                <text key={tick.at} x={x(tick.at)} y={HEIGHT - 6} text-anchor="middle">{tick.text}</text>
              ))}
            </g>
            {marks.map((mark, index) => (
              <g key={index} class={`mark ${mark.kind ?? ""}`}>
                <title>{mark.text}</title>
                <line x1={x(mark.x)} x2={x(mark.x)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />
                <circle cx={x(mark.x)} cy={EDGE.top} r="3.5" />
              </g>
            ))}
            <path class="line" d={pathOf(points, x, y)} />
            {known.length === 1 && known[0] && <circle class="dot" cx={x(known[0].x)} cy={y(known[0].y)} r="3" />}
            {pointed && (
              <g class="pointed">
                <line x1={x(pointed.x)} x2={x(pointed.x)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />
                <circle cx={x(pointed.x)} cy={y(pointed.y)} r="4" />
              </g>
            )}
          </svg>
          {pointed && (
            <p class="chart-note" style={{ left: `${Math.min(x(pointed.x) + 10, width - 170)}px` }}>
              <strong>{format(pointed.y)}</strong> {yLabel}
              <span>{new Date(pointed.x).toLocaleTimeString("en-GB")}</span>
            </p>
          )}
        </div>
      )}
      {marks.length > 0 && !isTable && <MarkList marks={marks} />}
    </figure>
  );
}

function NumbersTable({ label, points, yLabel, format }: { label: string; points: { x: number; y: number }[]; yLabel: string; format: (y: number) => string }): JSX.Element {
  const shown = points.slice(-TABLE_ROWS_MAX).reverse();
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`${label} as a table`}>
      <table>
        <thead><tr><th scope="col">Time</th><th scope="col" class="end">{yLabel}</th></tr></thead>
        <tbody>
          {shown.map((point) => (
            <tr key={point.x}>
              <th scope="row">{new Date(point.x).toLocaleString("en-GB")}</th>
              <td class="end" title={exact(point.y)}>{format(point.y)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What the marks mean, for who cannot point at them. */
function MarkList({ marks }: { marks: Mark[] }): JSX.Element {
  return (
    <ul class="mark-list">
      {marks.slice(-6).map((mark, index) => (
        <li key={index} class={mark.kind}>
          <time dateTime={new Date(mark.x).toISOString()}>{new Date(mark.x).toLocaleTimeString("en-GB")}</time> {mark.text}
        </li>
      ))}
    </ul>
  );
}

/** Gaps where nothing is known stay gaps. */
function pathOf(points: Point[], x: (ms: number) => number, y: (value: number) => number): string {
  let isDown = false;
  return points
    .map((point) => {
      if (point.y === null) {
        isDown = false;
        return "";
      }
      const command = isDown ? "L" : "M";
      isDown = true;
      return `${command}${round(x(point.x))} ${round(y(point.y))}`;
    })
    .join("");
}

function summaryOf(label: string, points: { x: number; y: number }[], marks: Mark[], unit: string, format: (y: number) => string): string {
  const values = points.map((point) => point.y);
  const last = values.at(-1) ?? 0;
  const marked = marks.length ? `; ${marks.length} ${marks.length === 1 ? "mark" : "marks"}` : "";
  return `${label}: now ${format(last)} ${unit}, lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}${marked}`;
}

function trend(values: number[]): string {
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return "nothing measured yet";
  const word = last > first ? "rising" : last < first ? "falling" : "steady";
  return `${word}, from ${count(first)} to ${count(last)}`;
}

function round(n: number): number {
  return Math.round(n * 10) / 10;
}
