// Lines: a JSON value line by line, each line with its path, written as the server writes paths. Pure.

export interface Line {
  /** Such as `inputs.items[3].price`; empty for a closing bracket. */
  path: string;
  depth: number;
  text: string;
}

const NAME = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u;

export function linesOf(value: unknown, path = "", depth = 0, name: string | null = null, isLast = true): Line[] {
  const head = name === null ? "" : `${JSON.stringify(name)}: `;
  const tail = isLast ? "" : ",";
  const isList = Array.isArray(value);
  if (value === null || typeof value !== "object") return [{ path, depth, text: `${head}${JSON.stringify(value)}${tail}` }];
  const children = isList ? value.map((each, index) => [index, each] as const) : Object.entries(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (children.length === 0) return [{ path, depth, text: `${head}${open}${close}${tail}` }];
  const inner = children.flatMap(([step, child], index) =>
    linesOf(child, joined(path, step), depth + 1, typeof step === "string" ? step : null, index === children.length - 1),
  );
  return [{ path, depth, text: `${head}${open}` }, ...inner, { path: "", depth, text: `${close}${tail}` }];
}

function joined(path: string, step: string | number): string {
  if (typeof step === "number") return `${path}[${step}]`;
  if (!NAME.test(step)) return `${path}[${escaped(step)}]`;
  return path === "" ? step : `${path}.${step}`;
}

/** JSON in ASCII. */
function escaped(text: string): string {
  return JSON.stringify(text).replace(/[^\x00-\x7f]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Whether a line is at one of these places, or inside it. */
export function isAt(line: Line, places: readonly string[]): boolean {
  return line.path !== "" && places.some((place) => line.path === place || isInside(line.path, place));
}

function isInside(path: string, place: string): boolean {
  return path.startsWith(place) && (path[place.length] === "." || path[place.length] === "[");
}
