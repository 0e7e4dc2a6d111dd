// Models: dead letters as the API tells them, of cursors and of conversations.

import type { Look } from "../lists/look";

export type LetterState = "dead" | "redriven" | "dropped";

export interface Letter {
  id: number;
  cursor: string;
  position: string;
  key: string | null;
  state: LetterState;
  error_type: string;
  error_message: string;
  attempts: number;
  first_failed_at: string;
  dead_at: string;
  redrive_count: number;
  changed_at: string;
  changed_by: string;
  reason: string;
  raw_size: number;
  version: string;
}

export interface LetterDetail extends Letter {
  raw_text: string | null;
  raw_base64: string;
  /** There is more than was sent to this page. */
  raw_is_cut: boolean;
  /** The line of its key, in which its message would stand again. */
  line: { cursor: string; key: string | null; letters: number; waiting: number } | null;
  failures: { attempt: number; at: string; error: string }[];
  error_trace: string;
  as_of: string;
}

/** What a redrive would do, or did. */
export interface Redrive {
  dry_run: boolean;
  count: number;
  ids: number[];
  skipped: number[];
  sample: Pick<Letter, "id" | "cursor" | "position" | "key" | "error_type" | "error_message">[];
  cursors?: { cursor: string; count: number }[];
  lines?: { cursor: string; key: string | null; count: number; waiting: number }[];
  is_cut?: boolean;
}

/** A batch of messages of a conversation that its agent failed at too often. */
export interface Undelivered {
  id: number;
  group: string;
  state: string;
  attempt: number;
  first_seq: number;
  last_seq: number;
  error: string | null;
  started_at: string | null;
  ended_at: string | null;
  version: string;
}

export function letterLook(state: LetterState): Look {
  const kinds = { dead: "bad", redriven: "ok", dropped: "off" } as const;
  return { kind: kinds[state], word: state };
}

export function letterHref(letter: { id: number }): string {
  return `/dead/${letter.id}`;
}

export function messages(number: number): string {
  return number === 1 ? "1 message" : `${number.toLocaleString("en")} messages`;
}

/** Why a letter can be neither put back nor given up; null when it can. */
export function overReason(letter: { state: LetterState } | undefined): string | null {
  if (letter === undefined) return "it is not loaded yet";
  if (letter.state === "redriven") return "it was put back already";
  if (letter.state === "dropped") return "it was given up already";
  return null;
}
