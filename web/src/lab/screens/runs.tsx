// Runs: what was imported, what is to be compared, and what was: where runs are imported and comparisons set up.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../../core/api";
import { patiently } from "../../core/patience";
import { toast } from "../../ui/toasts";
import { ExperimentCard, RunCard } from "../cards";
import { Choosing, type Chosen } from "../choosing";
import { ImportForm } from "../importing";
import {
  comparePage, type Experiment, type ExperimentDetail, experimentPath, type LabConfig, type LabPage, nameOfExperiment, nameOfRun, reviewPage, type Run,
  type RunDetail, runPath,
} from "../models";
import { Heard, LabLink, Toggle, Unloaded, useLoaded } from "../parts";
import { heard, loadSettings, useHeading, useServerWatch } from "../place";
import { isNumber } from "../words";

const LIMIT = 20;
type Task = NonNullable<LabConfig["task"]>;

interface Lists {
  runs: LabPage<Run>;
  experiments: LabPage<Experiment>;
}

async function loadLists(signal?: AbortSignal): Promise<Lists> {
  const [runs, experiments] = await Promise.all([
    get<LabPage<Run>>("/api/runs", { limit: LIMIT }, signal),
    get<LabPage<Experiment>>("/api/experiments", { limit: LIMIT }, signal),
  ]);
  return { runs, experiments };
}

export default function Runs(): JSX.Element {
  useHeading("Experiment Lab", "What was made, and what should be judged next?");
  const { data, error } = useLoaded(async (signal) => {
    const config = await loadSettings(signal);
    return { config, first: await patiently(() => loadLists(signal), signal) };
  }, "");
  return <div class="lab">{data ? <SetUp {...data} /> : <Unloaded error={error} />}</div>;
}

function SetUp({ config, first }: { config: LabConfig; first: Lists }): JSX.Element {
  const [lists, setLists] = useState(first);
  const [fresh, setFresh] = useState<Lists | null>(null);
  const [chosen, setChosen] = useState<Chosen[]>([]);
  const [withMetrics, setMetrics] = useState(false);
  const { runs, experiments } = lists;

  const reload = async (): Promise<void> => {
    setLists(await patiently(loadLists));
    setFresh(null);
  };
  // New items wait behind a button, so that nothing moves under the pointer.
  useServerWatch(true, async () => {
    const found = await loadLists();
    setLists((old) => {
      setFresh(hasNews(old, found) ? found : null);
      return old;
    });
  });
  const more = async (what: "runs" | "experiments"): Promise<void> => {
    const { nextCursor } = lists[what];
    const page = await patiently(() => get<LabPage<Run & Experiment>>(`/api/${what}`, { limit: LIMIT, cursor: nextCursor }));
    setLists((old) => (old[what].nextCursor === nextCursor ? { ...old, [what]: { items: [...old[what].items, ...page.items], nextCursor: page.nextCursor } } : old));
    heard.value = `${page.items.length} more shown`;
  };
  const onImported = async (runId: string): Promise<void> => {
    const isKnown = runs.items.some((run) => run.runId === runId);
    await reload();
    toast(isKnown ? "This run was imported before and has not changed." : "Imported.");
    // After the list is drawn again.
    requestAnimationFrame(() => document.getElementById(`pick-${runId}`)?.focus());
  };
  const tick = (run: Run): void => {
    const isChosen = chosen.some((each) => each.runId === run.runId);
    setChosen(isChosen ? chosen.filter((each) => each.runId !== run.runId) : [...chosen, { runId: run.runId, name: nameOfRun(run), label: "" }]);
  };
  return (
    <div class="stack">
      {config.task && <TaskLink task={config.task} />}
      <div class="columns">
        <div class="column">
          <ImportForm roots={config.allowedRoots} onImported={onImported} />
          <section aria-labelledby="runs-title">
            <div class="row">
              <h2 id="runs-title">Runs</h2>
              {runs.items.length > 0 && config.ui?.revealMetricsEnabled !== false && (
                <Toggle isOn={withMetrics} onChange={setMetrics} id="metrics-toggle">Show metrics (may bias you)</Toggle>
              )}
            </div>
            <p role="status">{fresh && <button type="button" onClick={() => { setLists(fresh); setFresh(null); }}>Show what is new</button>}</p>
            <ul class="cards" id="runs">
              {runs.items.map((run) => (
                <RunCard
                  key={run.runId} run={run} place={chosen.findIndex((each) => each.runId === run.runId)}
                  older={runs.items.find((each) => each.runId === run.supersedesRunId)} withMetrics={withMetrics} onTick={() => tick(run)}
                />
              ))}
              {runs.items.length === 0 && <li class="none"><NothingYet /></li>}
              {runs.nextCursor && <li><button type="button" onClick={() => void more("runs")}>More runs</button></li>}
            </ul>
          </section>
          <Choosing chosen={chosen} onChange={setChosen} />
        </div>
        <section aria-labelledby="experiments-title">
          <h2 id="experiments-title">Comparisons</h2>
          <ul class="cards" id="experiments">
            {experiments.items.map((each) => <ExperimentCard key={each.experimentId} experiment={each} />)}
            {experiments.items.length === 0 && <li class="none">Nothing has been compared yet. Tick two or more runs, then press “Compare”.</li>}
            {experiments.nextCursor && <li><button type="button" onClick={() => void more("experiments")}>More comparisons</button></li>}
          </ul>
        </section>
      </div>
      <Heard />
    </div>
  );
}

function hasNews(old: Lists, found: Lists): boolean {
  const isNew = <T,>(items: T[], known: T[], seen: (item: T) => string): boolean => {
    const names = new Set(known.map(seen));
    return items.some((each) => !names.has(seen(each)));
  };
  return (
    isNew(found.runs.items, old.runs.items, (run) => `${run.runId} ${run.lastOverall}`) ||
    isNew(found.experiments.items, old.experiments.items, (each) => `${each.experimentId} ${each.status}`)
  );
}

interface Offer {
  text: string;
  label: string;
  page: string;
}

/** The task that this server was started for, until it is done. */
function TaskLink({ task }: { task: Task }): JSX.Element | null {
  const [offer, setOffer] = useState<Offer | null>(null);
  useEffect(() => {
    offerOf(task).then(setOffer, () => setOffer(null));
  }, []);
  if (!offer) return null;
  return (
    <section class="task" aria-label="Your task">
      <p>{offer.text}</p>
      <LabLink page={offer.page} class="button main">{offer.label}</LabLink>
    </section>
  );
}

async function offerOf(task: Task): Promise<Offer | null> {
  if (task.type === "compare") {
    const experiment = await get<ExperimentDetail>(experimentPath(task.experimentId));
    if (experiment.submission) return null;
    return { text: `An agent waits for your judgement: ${nameOfExperiment(experiment)}.`, label: "Continue: compare", page: comparePage(task.experimentId) };
  }
  const run = await get<RunDetail>(runPath(task.runId));
  if (isNumber(run.lastOverall)) return null;
  return { text: `An agent waits for your review: ${nameOfRun(run)}.`, label: "Continue: review", page: reviewPage(task.runId) };
}

function NothingYet(): JSX.Element {
  return (
    <>
      <p>No run has been imported yet. A run is a directory with what an agent made: a video, a script, or any text, Markdown or image file that its lab.json names.</p>
      <p>Import one above, or in a terminal: <code>onceward lab review PATH</code>.</p>
    </>
  );
}
