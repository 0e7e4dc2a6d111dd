// Sides: the runs of an experiment, shuffled once, with the letters that stand for their names. Draws nothing.

import { get, Refused, runPath } from "./api.js";
import { patiently } from "./away.js";
import { keep, recall, shuffled } from "./drafts.js";
import { letter } from "./words.js";

export const BASELINE = "baseline";

/** The baseline and the variants, in the order in which the server wants to hear of them. */
export function sidesOf(experiment) {
  const baseline = { variantId: BASELINE, label: "Baseline", runId: experiment.baselineRunId };
  return [baseline, ...experiment.variants].map((each) => ({ ...each, run: null, letter: null }));
}

/** Load the runs of all sides. One that cannot be read is null: it is shown as such, and can still be judged. */
export async function loadRuns(sides) {
  await Promise.all(sides.map(async (side) => (side.run = await readRun(side.runId))));
}

async function readRun(runId) {
  try {
    return await patiently(() => get(runPath(runId)));
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

/** The sides with their letters, as this browser showed them first; `draw` says whether to shuffle now. */
export function inOrder(sides, experimentId, draw) {
  const ids = sides.map((side) => side.variantId);
  let order = recall(`order.${experimentId}`);
  const fits = Array.isArray(order) && order.length === ids.length && ids.every((id) => order.includes(id));
  if (!fits) {
    if (!draw) return sides;
    order = shuffled(ids);
    keep(`order.${experimentId}`, order);
  }
  const ordered = order.map((id) => sides.find((side) => side.variantId === id));
  ordered.forEach((side, index) => (side.letter = letter(index)));
  return ordered;
}
