// Models: what the server tells about groups, and the words for it.

import type { Schemas } from "../../api/types";
import type { Kind } from "../../ui/bits";

export type GroupRow = Schemas["StatusItem"];
export type Board = Schemas["Status"];
export type Delivery = Schemas["DeliveryItem"];
export type Saying = Schemas["OutboxItem"];
export type Move = Schemas["GroupMove"];
export type Group = Schemas["GroupDetail"];

/** What matters about a group when it is said in one word. */
export interface Standing {
  isPaused: boolean;
  isRunning: boolean;
  isCalled: boolean;
  isHeld: boolean;
  retryAt: string | null;
  pending: number;
  dead: number;
}

export function standingOf(each: Standing): { kind: Kind; word: string; title?: string } {
  if (each.isRunning) return { kind: "busy", word: "at work" };
  if (each.isPaused) return { kind: "off", word: "paused", title: "Messages come in and wait" };
  if (each.dead > 0) return { kind: "bad", word: "dead letters", title: "Messages failed too often; an operator decides" };
  if (each.retryAt !== null) return { kind: "warn", word: "retry pending", title: "The last attempt failed" };
  if (each.isCalled && !each.isHeld) return { kind: "warn", word: "no dispatcher", title: "No dispatcher is running" };
  if (each.isCalled) return { kind: "wait", word: "about to start" };
  return each.pending > 0
    ? { kind: "off", word: "listens", title: "What was said waits as context until a message triggers the agent" }
    : { kind: "ok", word: "quiet" };
}

export function callOf({ trigger, word }: { trigger: string; word: string }): string {
  if (trigger === "prefix") return `messages that begin with ${word}`;
  if (trigger === "mention") return `messages that mention ${word}`;
  return "every message";
}

export const DELIVERY_KINDS: Record<Delivery["state"], Kind> = {
  running: "busy",
  done: "ok",
  kept: "warn",
  "rolled back": "off",
  dead: "bad",
  redriven: "off",
  dropped: "off",
};

export const DELIVERY_WORDS: Record<Delivery["state"], string> = {
  running: "An agent has it, or a crash left it",
  done: "The agent reported success",
  kept: "It failed after something was answered, so it is not repeated",
  "rolled back": "It failed before any output was sent; its messages are delivered again",
  dead: "It failed too often; an operator decides",
  redriven: "An operator requeued its messages",
  dropped: "An operator dropped its messages",
};

export const SAYING_KINDS: Record<Saying["state"], Kind> = {
  pending: "wait",
  sending: "busy",
  sent: "ok",
  "maybe sent": "warn",
  failed: "warn",
  cancelled: "off",
};

export const SAYING_WORDS: Record<Saying["state"], string> = {
  pending: "Not sent yet.",
  sending: "Being sent; it may have been shown.",
  sent: "The channel has taken it.",
  "maybe sent": "The process died while sending, and the channel cannot tell whether it arrived. It is not sent again, because twice is worse than once.",
  failed: "The channel rejected it.",
  cancelled: "Cancelled before it was sent.",
};

export const groupHref = (group: string): string => `/conversations?${new URLSearchParams({ group }).toString()}`;
