// Pieces: a run's steps as they lie in time, cut where its lives ended. Pure.

import { stageText, type Command, type Life, type RunDetail } from "./models";
import type { Span } from "./axis";

export interface Piece extends Span {
  step: number;
  /** Sent or taken up again: drawn hatched. */
  isAgain: boolean;
  isOpen: boolean;
}

export interface Lane {
  agent: string;
  steps: { command: Command; pieces: Piece[] }[];
}

export interface Shape {
  whole: Span;
  lives: (Span & { ending: Life["ending"] })[];
  lanes: Lane[];
  crashes: { at: number; text: string }[];
  busy: Span[];
}

export function shapeOf(run: RunDetail): Shape {
  const now = Date.parse(run.as_of);
  const lives = run.lives.map((life) => ({
    from: Date.parse(life.from),
    to: life.to === null ? now : Date.parse(life.to),
    ending: life.ending,
  }));
  const begin = lives[0]?.from ?? Date.parse(run.summary.started_at);
  const last = lives.at(-1)?.to ?? Date.parse(run.summary.updated_at);
  const lanes: Lane[] = [];
  for (const command of run.commands) {
    let lane = lanes.find((each) => each.agent === command.agent);
    if (lane === undefined) lanes.push((lane = { agent: command.agent, steps: [] }));
    lane.steps.push({ command, pieces: piecesOf(command, lives, last) });
  }
  const crashes = run.crashes.map((each) => ({ at: Date.parse(each.at), text: each.text }));
  const busy = lanes.flatMap((lane) => lane.steps.flatMap((each) => each.pieces));
  return {
    whole: { from: begin, to: Math.max(last, begin + 1) },
    lives,
    lanes,
    crashes,
    busy: [...busy, ...crashes.map((each) => ({ from: each.at, to: each.at }))],
  };
}

/** No step runs while the run is down, so its bar ends at a crash and starts again after it. */
function piecesOf(command: Command, lives: Shape["lives"], last: number): Piece[] {
  const from = Date.parse(command.asked_at);
  const isOpen = command.answered_at === null;
  const to = command.answered_at === null ? last : Date.parse(command.answered_at);
  const inside = lives
    .map((life) => ({ from: Math.max(from, life.from), to: Math.min(to, life.to) }))
    .filter((each) => each.from < each.to);
  const spans = inside.length > 0 ? inside : [{ from, to: Math.max(to, from) }];
  const isResent = spans.length === 1 && command.sent > 1;
  return spans.map((span, index) => ({
    ...span,
    step: command.step,
    isAgain: index > 0 || isResent,
    isOpen: isOpen && index === spans.length - 1,
  }));
}

/** The text of a bar for screen readers. */
export function stepText(command: Command): string {
  const sent = command.sent > 1 ? `, sent ${command.sent} times` : "";
  return `step ${command.step}: ${stageText(command)} of ${command.task_id}, ${command.state}${sent}`;
}
