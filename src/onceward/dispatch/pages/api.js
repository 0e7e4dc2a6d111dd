// Api: the server of conversations and its addresses. Knows no page.

import { Server } from "./calling.js";

export { Refused } from "./calling.js";

/** How long a request waits for news, and how much longer it may take than that. */
const NEWS_SECONDS = 25;
const SLACK_MS = 15_000;

const server = new Server("/api/chat/config");

export const loadConfig = () => server.loadConfig();
export const getStatus = () => reading("/api/dispatch/status");
export const getGroups = () => reading("/api/chat/groups");

/** Say something in a group; the same id is the same message. */
export function say(group, message) {
  return server.post(messagesPath(group), message);
}

/** Return what was said last, up to a cursor of an earlier answer. */
export function getLast(group, count, before = null) {
  const upto = before === null ? "" : `&before=${encodeURIComponent(before)}`;
  return reading(`${messagesPath(group)}?last=${count}${upto}`);
}

/** Wait for something that is said behind a cursor, or for another state of the group. */
export function getNews(group, since, tag) {
  const query = new URLSearchParams({ since, state: tag, wait: NEWS_SECONDS });
  return reading(`${messagesPath(group)}?${query}`, { timeoutMs: NEWS_SECONDS * 1000 + SLACK_MS });
}

/** Where other machines can ask, even reading takes the token, and a server started anew has another. */
async function reading(path, options) {
  for (;;) {
    try {
      return await server.get(path, options);
    } catch (error) {
      if (error.status !== 401) throw error;
      await server.renewToken();
    }
  }
}

function messagesPath(group) {
  return `/api/chat/${encodeURIComponent(group)}/messages`;
}
