// Judgements: what a person enters about runs, as drafts keep it, and the bodies that are sent. The server decides
// what is acceptable. Pure.

import { type ExperimentDetail, questionsOf } from "./models";
import type { Side } from "./sides";

export const ASPECTS = ["overall", "hook", "pacing", "script", "visuals", "motion", "captions", "sync"] as const;
export type Aspect = (typeof ASPECTS)[number];

/** What is entered about one run; everything is text, as it was typed. */
export interface Judgement {
  ratings?: Partial<Record<Aspect, string>>;
  notes?: string;
  tags?: string;
}

/** What is sent of it: only what was filled in. */
export interface JudgementBody {
  ratings?: Record<string, number | string>;
  notes?: string;
  tags?: string[];
}

/** What is entered into a comparison. */
export interface ComparisonDraft {
  /** The chosen side's variant id, by which the choice stays the same under another letter; or "tie", "both_bad". */
  choice: string | null;
  reason: string;
  answers: Record<string, string>;
  perRun: Record<string, Judgement>;
}

export interface ComparisonBody {
  outcome?: string | undefined;
  winnerVariantId?: string | undefined;
  reason?: string | undefined;
  answers?: Record<string, string> | undefined;
  perRun: (JudgementBody & { runId: string; variantId: string })[];
}

export const NO_COMPARISON: ComparisonDraft = { choice: null, reason: "", answers: {}, perRun: {} };

/** How many aspects are rated. */
export function ratedCount({ ratings = {} }: Judgement): number {
  return Object.values(ratings).filter((text) => text !== "").length;
}

export function judgementBody(data: Judgement): JudgementBody {
  const body: JudgementBody = {};
  const ratings: Record<string, number | string> = {};
  for (const name of ASPECTS) {
    const text = data.ratings?.[name] ?? "";
    // A text that is no number is sent as it is: the server names the field and what it accepts.
    if (text !== "") ratings[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  if (Object.keys(ratings).length) body.ratings = ratings;
  if (data.notes?.trim()) body.notes = data.notes;
  const tags = (data.tags ?? "").split(",").map((each) => each.trim()).filter(Boolean);
  if (tags.length) body.tags = [...new Set(tags)];
  return body;
}

/** `sides` in the order in which the server lists them. */
export function comparisonBody(sides: Pick<Side, "runId" | "variantId">[], { choice, reason, answers, perRun }: ComparisonDraft): ComparisonBody {
  const winner = sides.find((side) => side.variantId === choice);
  const given = Object.fromEntries(Object.entries(answers).filter(([, answer]) => String(answer).trim()));
  return {
    outcome: winner ? "winner" : (choice ?? undefined),
    winnerVariantId: winner?.variantId,
    reason: reason.trim() ? reason : undefined,
    answers: Object.keys(given).length ? given : undefined,
    perRun: sides.map(({ runId, variantId }) => ({ runId, variantId, ...judgementBody(perRun[variantId] ?? {}) })),
  };
}

/** Whether a body holds nothing that a person entered. */
export function isEmpty({ outcome, reason, answers, perRun }: ComparisonBody): boolean {
  return !outcome && !reason && !answers && !perRun.some((each) => judgementLines(each).length);
}

/** All that was entered into a comparison, as lines that can be copied. */
export function comparisonLines(body: ComparisonBody, chosen: string | null, experiment: ExperimentDetail, sides: Side[], nameOf: (side: Side) => string): string[] {
  const prompts = new Map(questionsOf(experiment).map(({ id, prompt }) => [id, prompt]));
  return [
    ...(chosen ? [`Choice: ${chosen}`] : []),
    ...(body.reason ? [`Why: ${body.reason}`] : []),
    ...Object.entries(body.answers ?? {}).map(([id, answer]) => `${prompts.get(id) ?? id} ${answer}`),
    ...sides.flatMap((side) => {
      const lines = judgementLines(body.perRun.find((each) => each.variantId === side.variantId) ?? {});
      return lines.length ? [`${nameOf(side)}:`, ...lines] : [];
    }),
  ];
}

function judgementLines({ ratings, notes, tags }: JudgementBody): string[] {
  const rated = Object.entries(ratings ?? {}).map(([name, value]) => `${name} ${value}`);
  return [
    ...(rated.length ? [`Ratings: ${rated.join(", ")}`] : []),
    ...(notes ? [`Notes: ${notes}`] : []),
    ...(tags?.length ? [`Tags: ${tags.join(", ")}`] : []),
  ];
}
