// Kinds: two letters and a tone for each type of entity, so that a type is known without its colour.

const KNOWN: Record<string, [mark: string, tone: number]> = {
  Command: ["Cm", 0],
  Concept: ["Cp", 1],
  Dependency: ["De", 5],
  Doc: ["Do", 5],
  Error: ["Er", 3],
  File: ["Fi", 2],
  Fix: ["Fx", 4],
  Mode: ["Mo", 1],
  Run: ["Ru", 1],
  Tool: ["To", 0],
  Warning: ["Wa", 3],
};
const TONES = 6;

export function markOf(kind: string): string {
  const letters = kind.replace(/[^\p{L}\p{N}]/gu, "");
  return KNOWN[kind]?.[0] ?? ((letters.slice(0, 1).toUpperCase() + letters.slice(1, 2).toLowerCase()) || "?");
}

export function toneOf(kind: string): number {
  let sum = 0;
  for (const character of kind) sum = (sum * 31 + character.codePointAt(0)!) % 9973;
  return KNOWN[kind]?.[1] ?? sum % TONES;
}
