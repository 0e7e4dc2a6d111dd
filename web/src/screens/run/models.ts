// Models: runs as the API tells them, and the words and colours of their states.

import type { Look } from "../lists/look";

export interface Workspace {
  id: string;
  path: string;
}

export interface RunSummary {
  run_id: string;
  status: "running" | "crashed" | "done" | "failed" | "stopped";
  /** Whether an orchestrator works on it now. */
  is_held?: boolean;
  reason: string | null;
  tasks: string[];
  task_id: string | null;
  stage: string | null;
  round: number | null;
  steps: number;
  started_at: string;
  updated_at: string;
  resumed: number;
  damaged: number;
  /** Tasks whose last build no check has passed. */
  unchecked: string[];
}

export interface RunItem extends RunSummary {
  workspace: Workspace;
  goal: string | null;
}

export interface Artifact {
  path: string;
  sha256: string;
  size: number;
}

export interface Command {
  step: number;
  task_id: string;
  stage: string;
  round: number;
  agent: string;
  idempotency_key: string;
  state: "pending" | "answered" | "done" | "failed" | "abandoned";
  attempts: number;
  sent: number;
  asked_at: string;
  answered_at: string | null;
  event: string | null;
  status: string | null;
  artifacts: Artifact[];
  problem: string | null;
}

export interface Life {
  from: string;
  to: string | null;
  ending: "crashed" | "stopped" | "failed" | "done" | "running";
}

export interface Crash {
  at: string;
  text: string;
}

export interface RunDetail {
  summary: RunSummary;
  workspace: Workspace;
  goal?: string | null;
  commands: Command[];
  /** There are older commands that are not shown. */
  is_cut?: boolean;
  lives: Life[];
  crashes: Crash[];
  replays: number;
  headline: string;
  as_of: string;
}

export interface Story {
  step: number;
  task_id: string;
  stage: string;
  round: number;
  idempotency_key: string;
  why: string[];
  components: Record<string, unknown>;
}

/** The ledger of a run that died says "running" until it is resumed. */
export function runLook(run: Pick<RunSummary, "status" | "is_held">): Look {
  const word = run.status === "running" && run.is_held === false ? "crashed" : run.status;
  const kinds = { running: "busy", crashed: "bad", done: "ok", failed: "bad", stopped: "wait" } as const;
  return { kind: kinds[word], word };
}

export function commandLook(state: Command["state"]): Look {
  const looks = {
    pending: { kind: "busy", word: "at work" },
    answered: { kind: "busy", word: "answered" },
    done: { kind: "ok", word: "done" },
    failed: { kind: "bad", word: "failed" },
    abandoned: { kind: "off", word: "abandoned" },
  } as const;
  return looks[state];
}

export function runHref(run: { run_id: string; workspace: Workspace }): string {
  return `/runs/${encodeURIComponent(run.workspace.id)}/${encodeURIComponent(run.run_id)}`;
}

/** Such as `implement, round 2`. */
export function stageText(command: { stage: string; round: number }): string {
  return command.round > 1 ? `${command.stage}, round ${command.round}` : command.stage;
}

export function tookSeconds(from: string, to: string | null): number | null {
  return to === null ? null : Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000);
}
