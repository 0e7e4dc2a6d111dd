// Cards: how runs and comparisons look in the list where they are set up.

import type { JSX } from "preact";
import { plural } from "../core/format";
import { Ago, type Kind, State } from "../ui/bits";
import { MetricsLine } from "./metrics";
import { comparePage, type Experiment, nameOfExperiment, nameOfRun, questionsOf, reviewPage, type Run } from "./models";
import { LabLink } from "./parts";

const STATUS: Record<string, [Kind, string]> = {
  queued: ["wait", "waiting for a judgement"],
  running: ["busy", "running"],
  done: ["ok", "decided"],
  failed: ["bad", "failed"],
};

interface RunCardProps {
  run: Run;
  /** 0 for the baseline of a comparison, more for a variant, -1 when it is not ticked. */
  place: number;
  /** The run that it supersedes, if that one is in the list. */
  older: Run | undefined;
  withMetrics: boolean;
  onTick: () => void;
}

export function RunCard({ run, place, older, withMetrics, onTick }: RunCardProps): JSX.Element {
  const name = nameOfRun(run);
  const id = `pick-${run.runId}`;
  return (
    <li class={place >= 0 ? "card run picked" : "card run"}>
      <label class="pick" for={id}><input type="checkbox" id={id} aria-label={`Select ${name}`} checked={place >= 0} onChange={onTick} /></label>
      <div class="about">
        <p class="name">
          <LabLink page={reviewPage(run.runId)}>{name}</LabLink>
          {place >= 0 && <span class="badge">{place === 0 ? "baseline" : `variant ${place}`}</span>}
        </p>
        <p class="hint path">{run.artifactsDir}</p>
        {run.supersedesRunId && <p class="hint">↻ newer version of <LabLink page={reviewPage(run.supersedesRunId)}>{older ? <>the run of <Ago at={older.createdAt} /></> : "an earlier run"}</LabLink></p>}
        {withMetrics && <MetricsLine summary={run.autoMetricsSummary} />}
      </div>
      <div class="about-it">
        <Ago at={run.createdAt} />
        {!run.videoPath && <span class="hint">no video</span>}
        <span class="num">{run.lastOverall === null ? "not rated yet" : `last overall ${run.lastOverall}`}</span>
        <LabLink page={reviewPage(run.runId)} class="button" aria-label={`Review ${name}`}>Review</LabLink>
      </div>
    </li>
  );
}

export function ExperimentCard({ experiment }: { experiment: Experiment }): JSX.Element {
  const name = nameOfExperiment(experiment);
  const [kind, word] = STATUS[experiment.status] ?? ["off", experiment.status];
  const isDone = experiment.status === "done";
  const page = comparePage(experiment.experimentId);
  return (
    <li class="card">
      <div class="about">
        <p class="name"><LabLink page={page}>{name}</LabLink></p>
        <p class="hint"><State kind={kind as Kind} word={word} />{` · ${plural(experiment.variants.length + 1, "side")}, ${plural(questionsOf(experiment).length, "question")}`}</p>
      </div>
      <div class="about-it">
        <Ago at={experiment.createdAt} />
        <LabLink page={page} class={isDone ? "button" : "button main"} aria-label={`${isDone ? "Result" : "Compare"}: ${name}`}>{isDone ? "Result" : "Compare"}</LabLink>
      </div>
    </li>
  );
}
