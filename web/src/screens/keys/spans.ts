// Spans: the members of a JSON object as they were typed, so that no number is parsed and formatted again. Pure.

/** The text of each member of an object that `JSON.parse` has accepted; doubled names count once, as the last. */
export function membersOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let at = text.indexOf("{") + 1;
  while (at > 0) {
    const opening = text.indexOf('"', at);
    if (opening < 0) return found;
    const closing = endOfString(text, opening);
    const name = JSON.parse(text.slice(opening, closing)) as string;
    const begin = text.indexOf(":", closing) + 1;
    const end = endOfValue(text, begin);
    found.set(name, text.slice(begin, end).trim());
    if (text[end] !== ",") return found;
    at = end + 1;
  }
  return found;
}

/** Where the comma or brace after a value is. */
function endOfValue(text: string, begin: number): number {
  let depth = 0;
  for (let at = begin; at < text.length; at++) {
    const character = text[at]!;
    if (character === '"') at = endOfString(text, at) - 1;
    else if ("{[".includes(character)) depth += 1;
    else if (depth > 0 && "}]".includes(character)) depth -= 1;
    else if (depth === 0 && ",}".includes(character)) return at;
  }
  return text.length;
}

function endOfString(text: string, opening: number): number {
  let at = opening + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}
