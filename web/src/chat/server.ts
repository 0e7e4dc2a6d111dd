// Server: the addresses of conversations. Knows no page.

import { get, post } from "../core/api";
import type { Board, GroupItem, Talk } from "./models";

/** How long a request waits for news, and how much longer it may take than that. */
const NEWS_SECONDS = 25;
const SLACK_MS = 15_000;

export interface Message {
  /** The same id is the same message. */
  id: string;
  sender: string;
  text: string;
  timestamp: string;
}

export const getBoard = (signal?: AbortSignal): Promise<Board> => get("/api/dispatch/status", {}, signal);
export const getGroups = (signal?: AbortSignal): Promise<{ items: GroupItem[] }> => get("/api/chat/groups", {}, signal);

/** Say something in a group. */
export function say(group: string, { id, sender, text, timestamp }: Message): Promise<unknown> {
  return post(messagesPath(group), { id, sender, text, timestamp });
}

/** Return what was said last, up to a cursor of an earlier answer. */
export function getLast(group: string, count: number, before: string | null, signal?: AbortSignal): Promise<Talk> {
  return get(messagesPath(group), { last: count, before }, signal);
}

/** Wait for something that is said behind a cursor, or for another state of the group. */
export function getNews(group: string, since: string, tag: string, signal?: AbortSignal): Promise<Talk> {
  const query = { since, state: tag, wait: NEWS_SECONDS };
  return get(messagesPath(group), query, signal, NEWS_SECONDS * 1000 + SLACK_MS);
}

function messagesPath(group: string): string {
  return `/api/chat/${encodeURIComponent(group)}/messages`;
}
