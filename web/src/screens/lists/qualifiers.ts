// Qualifiers: `state:done scope:"a b" rest`, taken apart into named parts and the rest. Pure.

export interface Asked {
  named: Record<string, string>;
  rest: string;
}

const WORD = /([a-z]+):(?:"([^"]*)"|(\S*))|"[^"]*"|\S+/g;

/** Names that are not asked for stay part of the rest: a key may well hold a colon. */
export function takeApart(text: string, names: readonly string[]): Asked {
  const named: Record<string, string> = {};
  const rest: string[] = [];
  for (const [whole, name, quoted, bare] of text.matchAll(WORD)) {
    if (name !== undefined && names.includes(name)) {
      const value = quoted ?? bare ?? "";
      if (value !== "") named[name] = value;
    } else {
      rest.push(whole.startsWith('"') ? whole.slice(1, -1) : whole);
    }
  }
  return { named, rest: rest.join(" ") };
}

/** Written so that it is read back as one value. */
export function qualifier(name: string, value: string): string {
  return /[\s"]/.test(value) ? `${name}:"${value.replaceAll('"', "")}"` : `${name}:${value}`;
}
