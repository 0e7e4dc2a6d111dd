// Json: text that is JSON, laid out in lines. No value changes: numbers and escapes stay as they were written,
// also those that a parser would round.

const TOKENS = /"(?:[^"\\]+|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const INDENT = "  ";

/** The same text with each value in a line of its own; null if it is no JSON object or array. */
export function laidOut(text: string): string | null {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const parts: string[] = [];
  let depth = 0;
  let last = "";
  for (const [token] of text.matchAll(TOKENS)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    const isBetween = last === "{" || last === "[" ? !isEnd : last === "," || isEnd;
    if (isBetween) parts.push("\n", INDENT.repeat(depth));
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    last = token;
  }
  return parts.join("");
}
