// Fact: one observation, in words where its envelope is known, with where it came from. Its text is data.

import { useState } from "preact/hooks";
import { Ago, Json } from "../../ui/bits";
import type { Observation } from "./models";

const LONG_CHARACTERS = 400;

export function Fact({ fact }: { fact: Observation }) {
  const [isWhole, setWhole] = useState(false);
  const envelope = parsed(fact);
  const text = envelope === null ? fact.content : fact.headline;
  const isLong = text.length > LONG_CHARACTERS;
  return (
    <li class="memory-fact">
      {fact.kind && <span class="memory-kind">{fact.kind}</span>}
      <p class="memory-text">{isLong && !isWhole ? `${text.slice(0, LONG_CHARACTERS)}…` : text}</p>
      {isLong && (
        <button type="button" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : `Show all ${text.length} characters`}
        </button>
      )}
      {fact.is_cut && <p class="hint">The rest is left out here.</p>}
      {envelope !== null && <details><summary>All of it</summary><Json value={envelope} label="the whole fact" /></details>}
      <Origin source={fact.source} run={fact.run} at={fact.created_at} seen={fact.ts} />
    </li>
  );
}

/** Who wrote something, in which run, when; and when it was seen, where that is another moment. */
export function Origin({ source, run, at, seen }: { source: string; run: string | null; at?: string; seen?: string | null }) {
  return (
    <p class="memory-origin">
      <span>from {source || "an unnamed source"}</span>
      {run && <span>run <code>{run}</code></span>}
      {at && <span>stored <Ago at={at} /></span>}
      {seen && seen !== at && <span>seen <Ago at={seen} /></span>}
    </p>
  );
}

/** An envelope as it is kept; null for plain text, which its words say whole. */
function parsed(fact: Observation): unknown {
  if (fact.kind === null) return null;
  try {
    return JSON.parse(fact.content) as unknown;
  } catch {
    return fact.content;
  }
}
