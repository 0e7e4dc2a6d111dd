// Models: runs as the API tells them, and the words and colours of their states.

import type { Schemas } from "../../api/types";
import type { Look } from "../lists/look";

export type Workspace = Schemas["WorkspaceItem"];
export type RunItem = Schemas["RunListItem"];
export type Artifact = Schemas["ArtifactRecord"];
export type Command = Schemas["CommandView"];
export type Life = Schemas["RunLife"];
export type RunDetail = Schemas["TaskRunDetail"];
export type Story = Schemas["CommandExplanation"];

export function runLook({ state }: Pick<Schemas["RunSummary"], "state">): Look {
  const kinds = { running: "busy", crashed: "bad", done: "ok", failed: "bad", stopped: "wait" } as const;
  return { kind: kinds[state], word: state };
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
