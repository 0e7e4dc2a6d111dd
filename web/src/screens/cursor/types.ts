// Types: what the server tells of cursors, as the screens of them read it.

export type CursorWord = "held" | "free" | "expired" | "paused";
export type Shape = "climb" | "staircase" | "plateau" | "saw-tooth" | "quiet" | "unknown";

export interface Measure {
  lag_messages: number | null;
  lag_seconds: number | null;
  oldest_at: string | null;
  held_back_by: string | null;
  rate_per_minute: number | null;
  drain_seconds: number | null;
  measured_at: string;
  measure_age: number;
}

export interface CursorItem {
  name: string;
  state: CursorWord;
  version: string;
  position: string | null;
  last_processed_at: string | null;
  lease_owner: string | null;
  lease_expires_at: string | null;
  is_held: boolean;
  is_paused: boolean;
  epoch: number;
  error_count: number;
  steal_count: number;
  processed_count: number;
  created_at: string;
  updated_at: string;
  measure: Measure | null;
  shape: Shape;
  spark: (number | null)[];
  parked: number;
  dead: number;
  blocked_because: string | null;
}

export interface HistoryEntry {
  id: number;
  kind: "seek" | "pause" | "resume" | "steal" | "rollback" | "migration" | "undo";
  happened_at: string;
  actor: string;
  reason: string;
  from_position: string | null;
  to_position: string | null;
  epoch: number;
  undoes: number | null;
}

export interface Grant {
  epoch: number;
  worker: string;
  granted_at: string;
  ended_at: string | null;
  ending: "released" | "stolen" | "moved" | null;
}

export interface Refusal {
  happened_at: string;
  worker: string;
  epoch: number;
  current_epoch: number | null;
  current_owner: string | null;
  what: string;
}

export interface Sample {
  taken_at: string;
  position: string | null;
  processed_count: number;
  lag_messages: number | null;
  lag_seconds: number | null;
}

export interface Attempt {
  attempt: number;
  due_at: string | null;
  error: string;
}

export interface CursorDetail extends CursorItem {
  history: HistoryEntry[];
  grants: Grant[];
  refusals: Refusal[];
  samples: Sample[];
  attempts: Attempt | Attempt[] | null;
  can_count: boolean;
  undoable: { id: number; from_position: string | null; to_position: string | null; happened_at: string } | null;
  as_of: string;
}

export interface Move {
  cursor: string;
  from_position: string | null;
  to_position: string | null;
  repeated: number | null;
  skipped: number | null;
  discarded: number | null;
  restored: number;
  interrupts: string | null;
  epoch: number | null;
}

export interface Moving {
  move: Move;
  dry_run: boolean;
  sample?: unknown[];
}
