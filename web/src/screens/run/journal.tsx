// Journal: the records of a run's ledger, numbered, each with the state of its checksum.

import type { Schemas } from "../../api/types";
import { when } from "../../core/format";
import { usePages } from "../../core/live";
import { route, setQuery } from "../../core/router";
import { Empty, ErrorBox, Fresh, Json, Notice, Skeleton, State } from "../../ui/bits";
import { runParams } from "./tabs";
import type { RunDetail } from "./models";

type Line = Schemas["LedgerItem"];

const PAGE_RECORDS = 500;
const SHOWN_APART = ["seq", "at", "kind", "sum"];
const VALUE_CHARACTERS_MAX = 40;
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

export function JournalTab({ run }: { run: RunDetail }) {
  const isWhole = route.value.query.get("as") === "json";
  const pages = usePages<Line>(["runs"], "/api/orchestrator/journal", runParams(run), { limit: PAGE_RECORDS, rowKey });
  const damaged = pages.items.filter((each) => each.is_damaged).length;
  if (pages.error !== undefined && pages.items.length === 0) return <ErrorBox error={pages.error} />;
  if (pages.isLoading && pages.items.length === 0) return <Skeleton />;
  return (
    <div class="part">
      <div class="timeline-tools">
        <p class="hint">
          Every line was on disk before what it announces was done. {damaged === 0
            ? "All checksums of the lines shown match."
            : ""}
        </p>
        <label class="check">
          <input
            type="checkbox"
            checked={isWhole}
            onChange={(event) => setQuery({ as: event.currentTarget.checked ? "json" : null }, { replace: true })}
          />
          Whole records
        </label>
      </div>
      {damaged > 0 && (
        <Notice kind="bad">
          {damaged === 1 ? "One line is" : `${damaged} lines are`} not what was written.
        </Notice>
      )}
      {pages.items.length === 0 ? (
        <Empty title="The ledger is empty" text="Its first record is written when the run begins." />
      ) : (
        <ol class="journal">
          {pages.items.map((each) => (
            <Entry key={each.offset} entry={each} isWhole={isWhole} />
          ))}
        </ol>
      )}
      <Fresh fresh={pages.fresh} showFresh={pages.showFresh} />
      {pages.more !== null && (
        <button type="button" class="more" onClick={pages.more}>
          More records
        </button>
      )}
    </div>
  );
}

function rowKey(line: Line): string {
  return String(line.offset);
}

function Entry({ entry, isWhole }: { entry: Line; isWhole: boolean }) {
  return (
    <li class={entry.is_damaged ? "journal-entry is-damaged" : "journal-entry"}>
      <span class="journal-number">{entry.seq ?? "?"}</span>
      <time class="journal-time" dateTime={entry.at ?? undefined} title={when(entry.at).absolute}>
        {entry.at === null ? "" : TIME.format(Date.parse(entry.at))}
      </time>
      <strong class="journal-kind">{entry.kind}</strong>
      {entry.is_damaged ? (
        <State kind="bad" word={entry.problem ?? "checksum does not match"} />
      ) : (
        <span class="journal-sum" title="its checksum matches">✓</span>
      )}
      {isWhole ? (
        <div class="journal-whole"><Json value={entry.line} /></div>
      ) : (
        <span class="journal-line">{compact(entry.line)}</span>
      )}
    </li>
  );
}

/** The fields that fit on a line, as `name value`; what is nested is for the whole record. */
function compact(line: Line["line"]): string {
  if (line === null || typeof line === "string") return line ?? "";
  const parts: string[] = [];
  for (const [name, value] of Object.entries(line)) {
    if (SHOWN_APART.includes(name) || value === null) continue;
    if (Array.isArray(value)) parts.push(`${value.length} ${name}`);
    else if (typeof value !== "object") parts.push(`${name} ${cut(String(value))}`);
  }
  return parts.join(" · ");
}

function cut(text: string): string {
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX - 1)}…` : text;
}
