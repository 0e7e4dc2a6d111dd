// Models: dead letters of workers and conversations as the API returns them.

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
  source: "worker" | "chat";
  /** Of conversations: the group, and the numbers of its messages. */
  group: string | null;
  first_seq: number | null;
  last_seq: number | null;
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
  /** The first messages of a conversation's letter. */
  messages: { seq: number; sender: string; text: string; is_cut: boolean }[];
  messages_count: number;
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
  sample: Pick<Letter, "id" | "cursor" | "position" | "key" | "first_seq" | "last_seq" | "error_type" | "error_message">[];
  cursors?: { cursor: string; count: number }[];
  lines?: { cursor: string; key: string | null; count: number; waiting: number }[];
  is_cut?: boolean;
}

export function letterLook(state: LetterState): Look {
  const kinds = { dead: "bad", redriven: "ok", dropped: "off" } as const;
  return { kind: kinds[state], word: state };
}

export function letterHref(letter: { id: number }): string {
  return `/dead/${letter.id}`;
}

/** Where the messages of a letter are: a position of a cursor, or numbers in a conversation. */
export function placeOf(letter: Pick<Letter, "position" | "key" | "first_seq" | "last_seq">): string {
  if (letter.first_seq === null) return `at ${letter.position}${letter.key === null ? "" : `, key ${letter.key}`}`;
  if (letter.first_seq === letter.last_seq) return `message ${letter.first_seq}`;
  return `messages ${letter.first_seq} to ${letter.last_seq}`;
}

export function conversationHref(group: string): string {
  return `/conversations?${new URLSearchParams({ group })}`;
}

export function messages(number: number): string {
  return number === 1 ? "1 message" : `${number.toLocaleString("en")} messages`;
}

/** Why a letter can be neither put back nor given up; null when it can. */
export function overReason(letter: { state: LetterState } | undefined): string | null {
  if (letter === undefined) return "it is not loaded yet";
  if (letter.state === "redriven") return "it was redriven already";
  if (letter.state === "dropped") return "it was dropped already";
  return null;
}
