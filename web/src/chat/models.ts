// Models: what the server tells about conversations.

import type { Schemas } from "../api/types";

export type Item = Schemas["MessageItem"] | Schemas["ReplyItem"];
export type Talk = Schemas["Conversation"];
export type State = Schemas["State"];
export type Settings = Schemas["ChatConfig"];
export type GroupItem = Schemas["GroupItem"];
export type Board = Schemas["Status"];
export type BoardItem = Schemas["StatusItem"];

/** What tells an item from all others of its conversation. */
export function nameOf(item: Item): string {
  return item.type === "message" ? `message ${item.id}` : `reply ${item.key}`;
}

/** The address of a conversation by itself. */
export function pathOf(group: string): string {
  return `/chat/${encodeURIComponent(group)}`;
}
