// Sides: the runs of an experiment, shuffled once per browser, with the letters that stand for their names.

import { ApiError, get } from "../core/api";
import { mayPass, patiently } from "../core/patience";
import { keep, recall, shuffled } from "./drafts";
import { type ExperimentDetail, type RunDetail, runPath } from "./models";
import { letter } from "./words";

export const BASELINE = "baseline";

export interface Side {
  variantId: string;
  label: string | null;
  runId: string;
  /** Null if the run cannot be read; it can be judged all the same. */
  run: RunDetail | null;
  /** Null if this browser never showed the sides. */
  letter: string | null;
}

/** Return the baseline and the variants with their runs, in the order in which the server lists them. */
export function loadSides(experiment: ExperimentDetail, signal: AbortSignal): Promise<Side[]> {
  const baseline = { variantId: BASELINE, label: "Baseline", runId: experiment.baselineRunId };
  return Promise.all(
    [baseline, ...experiment.variants].map(async ({ variantId, label, runId }) => ({
      variantId, label: label ?? null, runId, run: await readRun(runId, signal), letter: null,
    })),
  );
}

async function readRun(runId: string, signal: AbortSignal): Promise<RunDetail | null> {
  try {
    return await patiently(() => get<RunDetail>(runPath(runId), {}, signal), signal);
  } catch (error) {
    if (error instanceof ApiError && !mayPass(error)) return null;
    throw error;
  }
}

/** Return the sides with their letters, as this browser showed them first; `isDrawn` shuffles them if it never did. */
export function inOrder(sides: Side[], experimentId: string, isDrawn: boolean): Side[] {
  const ids = sides.map((side) => side.variantId);
  let order = recall<string[]>(`order.${experimentId}`);
  const fits = Array.isArray(order) && order.length === ids.length && ids.every((id) => order?.includes(id));
  if (!fits || order === null) {
    if (!isDrawn) return sides;
    order = shuffled(ids);
    keep(`order.${experimentId}`, order);
  }
  return order.map((id, index) => ({ ...sides.find((side) => side.variantId === id)!, letter: letter(index) }));
}
