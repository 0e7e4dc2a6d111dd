// Models: dead letters of workers and conversations as the API returns them.

import type { Schemas } from "../../api/types";
import type { Look } from "../lists/look";

export type LetterState = Letter["state"];

export type Letter = Schemas["LetterItem"];
export type LetterDetail = Schemas["LetterDetail"];
export type Redrive = Schemas["RedriveResult"];

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
