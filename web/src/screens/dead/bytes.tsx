// Bytes: a message as JSON in lines, as the text that it is, or as hexadecimal numbers.

import { useMemo } from "preact/hooks";
import { laidOut } from "../../core/json";
import { route, setQuery } from "../../core/router";
import { Copy, Notice } from "../../ui/bits";
import type { LetterDetail } from "./models";

const BYTES_SHOWN_MAX = 16 * 1024;
const CHARACTERS_SHOWN_MAX = 64 * 1024;
const ROW_BYTES = 16;

export function Bytes({ letter }: { letter: LetterDetail }) {
  const json = useMemo(() => laidOut(letter.raw_text ?? ""), [letter.raw_text]);
  const ways = ["json", "text", "hex"].filter((each) => (each === "json" ? json !== null : each === "hex" || letter.raw_text !== null));
  const asked = route.value.query.get("as") ?? "";
  const way = ways.includes(asked) ? asked : ways[0];
  return (
    <section class="part" aria-label="The message">
      <div class="section-head">
        <h2>The message</h2>
        <div class="choices" role="group" aria-label="Show it as">
          {json !== null && <Choice way="json" title="JSON" isPressed={way === "json"} />}
          <Choice way="text" title="text" isPressed={way === "text"} refusal={letter.raw_text === null ? "its bytes are not UTF-8" : undefined} />
          <Choice way="hex" title="hex" isPressed={way === "hex"} />
        </div>
        <Copy text={letter.raw_text ?? letter.raw_base64} label={letter.raw_text === null ? "message in base64" : "message"} />
      </div>
      {letter.raw_text === null && <Notice kind="info">Its bytes are not UTF-8, so there is no text to show.</Notice>}
      {letter.raw_is_cut && <p class="hint">The beginning of {letter.raw_size.toLocaleString("en")} bytes.</p>}
      {way === "json" && <Text text={json ?? ""} label="The message as JSON" />}
      {way === "text" && <Text text={letter.raw_text ?? ""} label="The message as text" />}
      {way === "hex" && <Hex base64={letter.raw_base64} />}
    </section>
  );
}

function Choice({ way, title, isPressed, refusal }: { way: string; title: string; isPressed: boolean; refusal?: string }) {
  return (
    <button
      type="button"
      class="choice"
      aria-pressed={isPressed}
      aria-disabled={refusal === undefined ? undefined : "true"}
      title={refusal}
      onClick={() => refusal === undefined && setQuery({ as: way }, { replace: true })}
    >
      {title}
    </button>
  );
}

function Text({ text, label }: { text: string; label: string }) {
  const isCut = text.length > CHARACTERS_SHOWN_MAX;
  return (
    <>
      <pre class="file-text" tabIndex={0} role="region" aria-label={label}>
        {text.slice(0, CHARACTERS_SHOWN_MAX) || "(empty)"}
      </pre>
      {isCut && <p class="hint">The first {CHARACTERS_SHOWN_MAX.toLocaleString("en")} of {text.length.toLocaleString("en")} characters; copying takes them all.</p>}
    </>
  );
}

function Hex({ base64 }: { base64: string }) {
  const { text, size } = useMemo(() => dumpOf(base64), [base64]);
  return (
    <>
      <pre class="file-text hex" tabIndex={0} role="region" aria-label="The message in hexadecimal">{text || "(empty)"}</pre>
      {size > BYTES_SHOWN_MAX && <p class="hint">The first {BYTES_SHOWN_MAX.toLocaleString("en")} of {size.toLocaleString("en")} bytes.</p>}
    </>
  );
}

function dumpOf(base64: string): { text: string; size: number } {
  const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, BYTES_SHOWN_MAX); at += ROW_BYTES) {
    const row = [...bytes.subarray(at, at + ROW_BYTES)];
    const numbers = row.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const signs = row.map((each) => (each >= 0x20 && each < 0x7f ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${numbers.padEnd(ROW_BYTES * 3 - 1)}  ${signs}`);
  }
  return { text: lines.join("\n"), size: bytes.length };
}
