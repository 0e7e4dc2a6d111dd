// Graph: a few entities and how they hang together, drawn. Every node is a button with a name; one of them is
// in the order of Tab, and arrows lead to the others. Shows no more than it is given, and loads nothing.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Box, declutter, fit, place, type Point, towards } from "./placing";

export interface GraphNode {
  id: string;
  /** Two letters for what it is, and one of six tones. */
  mark: string;
  tone: number;
  hops: number;
  /** What a screen reader says. */
  name: string;
}

export interface GraphEdge {
  from: string;
  to: string;
  label: string;
}

interface Props {
  label: string;
  /** The middle is the first. */
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** The node that keys and buttons are about, and who hears when it changes. */
  focused: string;
  onFocus: (id: string) => void;
  onOpen: (id: string) => void;
}

const RADIUS = 15;
const APART = 46;
const HEIGHT_MIN = 300;
const HEIGHT_MAX = 560;
const LABEL_CHARACTERS = 22;
const CHARACTER_WIDTH = 6.7;
const LINE_HEIGHT = 15;
const ARROWS: Record<string, Point> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

export function Graph({ label, nodes, edges, focused, onFocus, onOpen }: Props) {
  const [frame, width] = useWidth();
  const drawing = useDrawing(nodes, edges, width);
  const buttons = useRef(new Map<string, SVGGElement>());
  const current = nodes.some((node) => node.id === focused) ? focused : nodes[0]?.id;
  // In an order that does not change with the middle: an element that is moved loses the focus.
  const order = useMemo(() => nodes.map((_, index) => index).sort((one, other) => (nodes[one]!.id < nodes[other]!.id ? -1 : 1)), [nodes]);

  const press = (event: KeyboardEvent, index: number) => {
    const direction = ARROWS[event.key];
    const next = direction ? towards(drawing.points, index, direction) : event.key === "Home" ? 0 : null;
    const isOpening = event.key === "Enter" || event.key === " ";
    if (!direction && next === null && !isOpening) return;
    event.preventDefault();
    event.stopPropagation();
    if (isOpening) onOpen(nodes[index]!.id);
    else if (next !== null) buttons.current.get(nodes[next]!.id)?.focus();
  };

  return (
    <div class="graph" ref={frame}>
      <svg role="group" aria-label={label} width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`}>
        <defs>
          <marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
            <path d="M0 0.5 L7.5 4 L0 7.5 z" />
          </marker>
        </defs>
        <g aria-hidden="true">
          {drawing.lines.map((line) => (
            <path key={line.key} class={line.ends.includes(current ?? "") ? "graph-edge near" : "graph-edge"} d={line.path} marker-end="url(#graph-arrow)" />
          ))}
          {drawing.lines.map((line) => line.label && (
            <text key={line.key} class="graph-relation" x={line.label.x} y={line.label.y}>{line.text}</text>
          ))}
        </g>
        {order.map((index) => {
          const node = nodes[index]!;
          const { x, y } = drawing.points[index]!;
          const caption = drawing.captions[index]!;
          return (
            <g
              key={node.id}
              ref={(element: SVGGElement | null) => {
                if (element) buttons.current.set(node.id, element);
                else buttons.current.delete(node.id);
              }}
              class={`graph-node tone-${node.tone}${index === 0 ? " chosen" : ""}`}
              role="button"
              tabindex={node.id === current ? 0 : -1}
              aria-label={node.name}
              aria-current={index === 0 ? "true" : undefined}
              transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}
              onFocus={() => onFocus(node.id)}
              onClick={() => onOpen(node.id)}
              onKeyDown={(event: KeyboardEvent) => press(event, index)}
            >
              <circle r={RADIUS + 4} class="graph-halo" />
              <circle r={RADIUS} class="graph-disc" />
              <text class="graph-letters" y="4.5" aria-hidden="true">{node.mark}</text>
              <text class={caption.isFree || index === 0 ? "graph-caption" : "graph-caption crowded"} x={caption.x} y={caption.y} text-anchor={caption.anchor} aria-hidden="true">
                {shortened(node.id)}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** What the marks mean, each once. */
export function Legend({ label, marks }: { label: string; marks: { title: string; mark: string; tone: number }[] }) {
  const found = new Map(marks.map((each) => [each.title, each]));
  return (
    <ul class="graph-legend" aria-label={label}>
      {[...found.values()].sort((one, other) => (one.title < other.title ? -1 : 1)).map(({ title, mark, tone }) => (
        <li key={title}>
          <svg class={`tone-${tone}`} width="22" height="22" viewBox="-11 -11 22 22" aria-hidden="true">
            <circle r="10" class="graph-disc" />
            <text class="graph-letters" y="3.5">{mark}</text>
          </svg>
          {title}
        </li>
      ))}
    </ul>
  );
}

/** The width that there is, which changes. */
function useWidth() {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const look = new ResizeObserver(() => setWidth(element.clientWidth));
    look.observe(element);
    return () => look.disconnect();
  }, []);
  return [frame, width || 600] as const;
}

interface Line {
  key: string;
  ends: [string, string];
  text: string;
  path: string;
  label: Point | null;
}

interface Caption {
  x: number;
  y: number;
  anchor: "middle" | "start" | "end";
  isFree: boolean;
}

function useDrawing(nodes: GraphNode[], edges: GraphEdge[], width: number) {
  const before = useRef(new Map<string, Point>());
  // A repeated request returns an equal graph in new objects; only a different graph is laid out again.
  const shape = JSON.stringify([nodes.map(({ id, hops }) => [id, hops]), edges.map(({ from, to, label }) => [from, to, label])]);
  const placed = useMemo(() => {
    const index = new Map(nodes.map((node, at) => [node.id, at]));
    const links = edges
      .map(({ from, to }) => [index.get(from), index.get(to)])
      .filter((pair): pair is [number, number] => pair[0] !== undefined && pair[1] !== undefined && pair[0] !== pair[1]);
    const points = place(nodes, links, before.current);
    before.current = new Map(nodes.map((node, at) => [node.id, points[at]!]));
    return points;
  }, [shape]);
  return useMemo(() => draw(nodes, edges, placed, width), [placed, width]);
}

function draw(nodes: GraphNode[], edges: GraphEdge[], placed: Point[], width: number) {
  const room = APART * APART * 1.4 * nodes.length;
  const height = Math.min(Math.max(HEIGHT_MIN, room / width), Math.max(HEIGHT_MAX, room / width / 1.5));
  const margin = { x: Math.min(70, width / 6), y: RADIUS + 26 };
  const box = { left: margin.x, right: width - margin.x, top: margin.y, bottom: height - margin.y };
  const points = fit(placed, box, Math.min(APART, width / 6));
  const all = { left: 2, top: 2, right: width - 2, bottom: height - 2 };
  const discs = points.map(({ x, y }) => around(x, y, RADIUS));
  const choices = nodes.map((node, index) => captionsOf(points[index]!, shortened(node.id).length * CHARACTER_WIDTH, points[0]!));
  const chosen = chosenPlaces(choices.map((each) => each.map(({ box }) => box)), discs, alongLines(nodes, edges, points), all);
  const captions: Caption[] = choices.map((each, index) => {
    const at = each[chosen[index] ?? 0]!;
    return { x: at.x, y: at.y, anchor: at.anchor, isFree: chosen[index] !== null };
  });
  const captionBoxes = choices.flatMap((each, index) => (chosen[index] === null ? [] : [each[chosen[index]!]!.box]));
  const lines = linesOf(nodes, edges, points, [...discs, ...captionBoxes], all);
  return { width, height: Math.round(height), points, captions, lines };
}

/** A name stands where no line is, if it can be; else where no other name is. */
function chosenPlaces(places: Box[][], discs: Box[], lines: Box[], within: Box): (number | null)[] {
  const clear = declutter(places, [...discs, ...lines], within);
  const used = places.flatMap((each, index) => (clear[index] === null ? [] : [each[clear[index]!]!]));
  const rest = declutter(places.map((each, index) => (clear[index] === null ? each : [])), [...discs, ...used], within);
  return clear.map((found, index) => found ?? rest[index]!);
}

/** Small boxes along every line, to keep names off them. */
function alongLines(nodes: GraphNode[], edges: GraphEdge[], points: Point[]): Box[] {
  const place = new Map(nodes.map((node, index) => [node.id, points[index]!]));
  return edges.flatMap(({ from, to }) => {
    const [start, end] = [place.get(from), place.get(to)];
    if (!start || !end) return [];
    const steps = Math.ceil(Math.hypot(end.x - start.x, end.y - start.y) / LINE_HEIGHT);
    return Array.from({ length: steps }, (_, step) => around(start.x + ((end.x - start.x) * step) / steps, start.y + ((end.y - start.y) * step) / steps, 1));
  });
}

/** Where a name may stand; away from the middle first, because the lines come from there. */
function captionsOf({ x, y }: Point, width: number, middle: Point) {
  const gap = RADIUS + 4;
  const half = width / 2;
  const box = (left: number, top: number): Box => ({ left: x + left, right: x + left + width, top: y + top, bottom: y + top + LINE_HEIGHT });
  const below = { x: 0, y: gap + 11, anchor: "middle" as const, box: box(-half, gap) };
  const above = { x: 0, y: -gap - 3, anchor: "middle" as const, box: box(-half, -gap - LINE_HEIGHT) };
  const right = { x: gap, y: 4, anchor: "start" as const, box: box(gap, -LINE_HEIGHT / 2) };
  const left = { x: -gap, y: 4, anchor: "end" as const, box: box(-gap - width, -LINE_HEIGHT / 2) };
  const upright = y < middle.y ? [above, below] : [below, above];
  const sideways = x < middle.x ? [left, right] : [right, left];
  return Math.abs(x - middle.x) > 2 * Math.abs(y - middle.y) ? [sideways[0]!, ...upright, sideways[1]!] : [upright[0]!, ...sideways, upright[1]!];
}

/** One line for each pair and direction, whatever it is called; the two directions of a pair are bent apart. */
function linesOf(nodes: GraphNode[], edges: GraphEdge[], points: Point[], taken: Box[], within: Box): Line[] {
  const index = new Map(nodes.map((node, at) => [node.id, at]));
  const grouped = new Map<string, { from: string; to: string; labels: string[] }>();
  for (const { from, to, label } of edges) {
    if (from === to || !index.has(from) || !index.has(to)) continue;
    const key = JSON.stringify([from, to]);
    const known = grouped.get(key) ?? { from, to, labels: [] };
    if (!known.labels.includes(label)) known.labels.push(label);
    grouped.set(key, known);
  }
  const lines = [...grouped].map(([key, { from, to, labels }]) => {
    const bend = grouped.has(JSON.stringify([to, from])) ? 18 : 0;
    const { path, middle } = bow(points[index.get(from)!]!, points[index.get(to)!]!, bend);
    return { key, ends: [from, to] as [string, string], text: shortened(labels.join(", ")), path, middle };
  });
  const boxes = lines.map(({ text, middle }) => [labelBox(middle, text.length * CHARACTER_WIDTH * 0.9)]);
  const free = declutter(boxes, taken, within);
  return lines.map(({ middle, ...line }, at) => ({ ...line, label: free[at] === null ? null : middle }));
}

function bow(from: Point, to: Point, bend: number): { path: string; middle: Point } {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const unit = { x: (to.x - from.x) / length, y: (to.y - from.y) / length };
  const side = { x: -unit.y * bend, y: unit.x * bend };
  const start = { x: from.x + unit.x * RADIUS, y: from.y + unit.y * RADIUS };
  const end = { x: to.x - unit.x * (RADIUS + 3), y: to.y - unit.y * (RADIUS + 3) };
  const control = { x: (start.x + end.x) / 2 + 2 * side.x, y: (start.y + end.y) / 2 + 2 * side.y };
  const middle = { x: (start.x + end.x) / 2 + side.x, y: (start.y + end.y) / 2 + side.y };
  const round = ({ x, y }: Point) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  return { path: bend ? `M${round(start)} Q${round(control)} ${round(end)}` : `M${round(start)} L${round(end)}`, middle };
}

function labelBox({ x, y }: Point, width: number): Box {
  return { left: x - width / 2, right: x + width / 2, top: y - LINE_HEIGHT / 2, bottom: y + LINE_HEIGHT / 2 };
}

function around(x: number, y: number, radius: number): Box {
  return { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius };
}

function shortened(text: string): string {
  return text.length > LABEL_CHARACTERS ? `${text.slice(0, LABEL_CHARACTERS - 1)}…` : text;
}
