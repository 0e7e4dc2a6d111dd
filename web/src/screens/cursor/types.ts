// Types: what the server tells of cursors, as the screens of them read it.

import type { Schemas } from "../../api/types";

export type CursorWord = CursorItem["state"];
export type Shape = CursorItem["shape"];

export type CursorItem = Schemas["CursorItem"];
export type HistoryEntry = Schemas["HistoryEntry"];
export type Grant = Schemas["Grant"];
export type Refusal = Schemas["RejectedWrite"];
export type Sample = Schemas["LagSample"];
export type Attempt = Schemas["FailingMessage"];
export type CursorDetail = Schemas["CursorDetail"];
export type Move = Schemas["Move"];
export type Moving = Schemas["CursorMoveResult"];
