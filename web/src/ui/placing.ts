// Placing: where the nodes and the labels of a small graph go. The same graph is always drawn the same, and
// what was there before stays about where it was. Pure arithmetic; knows no page.

export interface Point {
  x: number;
  y: number;
}

export interface Body {
  id: string;
  /** How far from the middle. */
  hops: number;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** No two directions of a few hundred are alike. */
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const STEPS = 240;
const STEPS_MANY = 100;
const MANY = 120;
const SPREADS = 40;
/** Pixels: how far a few points are drawn apart at the most. */
const UNIT_MAX = 170;

/** Return where each body goes, in no particular unit; the first one is the middle. */
export function place(bodies: Body[], links: [number, number][], before: Map<string, Point>): Point[] {
  const at = bodies.map((body, index) => begin(body, index, bodies, links, before));
  const steps = bodies.length > MANY ? STEPS_MANY : STEPS;
  for (let step = 0; step < steps; step += 1) {
    const reach = 0.4 * (1 - step / steps) + 0.01;
    const push = forces(at, links);
    for (let index = 1; index < at.length; index += 1) move(at[index]!, push[index]!, reach);
  }
  return at;
}

function begin(body: Body, index: number, bodies: Body[], links: [number, number][], before: Map<string, Point>): Point {
  if (index === 0) return { x: 0, y: 0 };
  const known = before.get(body.id);
  const middle = before.get(bodies[0]!.id);
  if (known && middle && (known.x !== middle.x || known.y !== middle.y)) return { x: known.x - middle.x, y: known.y - middle.y };
  const link = links.find(([from, to]) => (from === index && before.has(bodies[to]!.id)) || (to === index && before.has(bodies[from]!.id)));
  const near = link && before.get(bodies[link[0] === index ? link[1] : link[0]]!.id);
  const origin = near && middle ? { x: near.x - middle.x, y: near.y - middle.y } : { x: 0, y: 0 };
  const radius = near ? 0.5 : Math.max(1, body.hops);
  return { x: origin.x + radius * Math.cos(index * GOLDEN), y: origin.y + radius * Math.sin(index * GOLDEN) };
}

/** Everything pushes everything away, links pull, and a little draws to the middle. */
function forces(at: Point[], links: [number, number][]): Point[] {
  const push = at.map(({ x, y }) => ({ x: -0.05 * x, y: -0.05 * y }));
  for (let one = 0; one < at.length; one += 1) {
    for (let other = one + 1; other < at.length; other += 1) {
      const x = at[one]!.x - at[other]!.x || 1e-3 * (one - other);
      const y = at[one]!.y - at[other]!.y || 1e-3;
      const strength = 0.6 / Math.max(x * x + y * y, 0.01);
      add(push[one]!, x * strength, y * strength);
      add(push[other]!, -x * strength, -y * strength);
    }
  }
  for (const [one, other] of links) {
    const x = at[one]!.x - at[other]!.x;
    const y = at[one]!.y - at[other]!.y;
    const strength = Math.hypot(x, y);
    add(push[one]!, -x * strength, -y * strength);
    add(push[other]!, x * strength, y * strength);
  }
  return push;
}

function add(point: Point, x: number, y: number): void {
  point.x += x;
  point.y += y;
}

function move(point: Point, push: Point, reach: number): void {
  const strength = Math.hypot(push.x, push.y);
  if (strength === 0) return;
  const step = Math.min(strength, reach) / strength;
  add(point, push.x * step, push.y * step);
}

/** Bring points into a box, filling it unless they are few, and at least `apart` from one another if it can be. */
export function fit(points: Point[], box: Box, apart: number): Point[] {
  const xs = into(points.map((point) => point.x), box.left, box.right);
  const ys = into(points.map((point) => point.y), box.top, box.bottom);
  const fitted = points.map((_, index) => ({ x: xs[index]!, y: ys[index]! }));
  for (let step = 0; step < SPREADS && spread(fitted, box, apart); step += 1);
  return fitted;
}

function into(values: number[], from: number, to: number): number[] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const scale = Math.min(UNIT_MAX, (to - from) / Math.max(high - low, 1e-6));
  return values.map((value) => (from + to) / 2 + (value - (low + high) / 2) * scale);
}

function spread(points: Point[], box: Box, apart: number): boolean {
  let moved = false;
  for (let one = 0; one < points.length; one += 1) {
    for (let other = one + 1; other < points.length; other += 1) {
      const x = points[other]!.x - points[one]!.x || 0.1 * (other - one);
      const y = points[other]!.y - points[one]!.y || 0.1;
      const distance = Math.hypot(x, y);
      if (distance >= apart) continue;
      moved = true;
      const shift = (apart - distance) / 2 / distance;
      inside(points[one]!, -x * shift, -y * shift, box);
      inside(points[other]!, x * shift, y * shift, box);
    }
  }
  return moved;
}

function inside(point: Point, x: number, y: number, box: Box): void {
  point.x = Math.min(box.right, Math.max(box.left, point.x + x));
  point.y = Math.min(box.bottom, Math.max(box.top, point.y + y));
}

/** Choose for each label the first of its places that is free; null where none is. Earlier ones come first. */
export function declutter(places: Box[][], taken: Box[], within: Box): (number | null)[] {
  const used = [...taken];
  return places.map((choices) => {
    const found = choices.findIndex(
      (box) =>
        box.left >= within.left && box.right <= within.right && box.top >= within.top && box.bottom <= within.bottom &&
        !used.some((other) => overlaps(box, other)),
    );
    if (found < 0) return null;
    used.push(choices[found]!);
    return found;
  });
}

function overlaps(one: Box, other: Box): boolean {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

/** Return the point that is next in a direction, or null: near, and not too far aside. */
export function towards(points: Point[], from: number, direction: Point): number | null {
  let best: number | null = null;
  let least = Infinity;
  const start = points[from]!;
  points.forEach((point, index) => {
    const x = point.x - start.x;
    const y = point.y - start.y;
    const along = x * direction.x + y * direction.y;
    const aside = Math.abs(x * direction.y - y * direction.x);
    if (index === from || along <= 1 || aside > 2 * along) return;
    const cost = along + 2 * aside;
    if (cost < least) [best, least] = [index, cost];
  });
  return best;
}
