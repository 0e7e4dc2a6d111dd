// Desk: a screen of the Lab, with links to the previous and the next item of the queue.

import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { useKeys } from "../../core/keys";
import { go, Link } from "../../core/router";
import {
  comparePage, type Experiment, isOpen, type Modes, nameOfExperiment, nameOfRun, type PageName, parsePage, reviewPage, type Run, RUNS_PAGE,
} from "../../lab/models";
import { Away } from "../../lab/parts";
import { heading } from "../../lab/place";
import Compare from "../../lab/screens/compare";
import Review from "../../lab/screens/review";
import SetUp from "../../lab/screens/runs";
import { Empty, Skeleton } from "../../ui/bits";
import { hrefOf } from "./addresses";
import { useLabPages } from "./pages";

interface Item {
  page: string;
  name: string;
  isOpen: boolean;
}

const SCREENS: Partial<Record<PageName, ComponentType<{ id: string; modes: Modes }>>> = { compare: Compare, review: Review, runs: SetUp };

export function Desk({ tab, page, question }: { tab: string; page: string | null; question: string }) {
  const queue = useQueue(tab);
  const open = queue?.filter((each) => each.isOpen) ?? [];
  const shown = tab === "new" ? (page ?? RUNS_PAGE) : page;
  const first = open[0]?.page;
  useLayoutEffect(() => {
    // Until the screen says what it is called.
    heading.value = { title: "Lab", question };
  }, [shown]);
  useEffect(() => {
    // The judge gets the next item at once.
    if (tab !== "new" && page === null && first) go(hrefOf(first), { replace: true });
  }, [tab, page, first]);
  const walk = (by: number) => {
    const at = open.findIndex((each) => each.page === shown);
    const next = open[at < 0 ? 0 : (at + by + open.length) % open.length];
    if (next) go(hrefOf(next.page));
  };
  const others = open.filter((each) => each.page !== shown).length;
  useKeys(
    tab === "new" ? {} : { "[": { text: "Previous one to judge", run: () => walk(-1) }, "]": { text: "Next one to judge", run: () => walk(1) } },
    "Lab",
  );
  const address = parsePage(shown);
  const Screen = address && SCREENS[address.name];
  if (!address || !Screen) return queue === null || first ? <Skeleton /> : <NothingToJudge tab={tab} />;
  return (
    <div class="desk">
      <div class="desk-bar">
        {tab !== "new" && queue !== null && (
          <>
            <span role="status">{progressText(open.length, queue.length, tab)}</span>
            <Step label="Previous" keyName="[" isIdle={others === 0} onClick={() => walk(-1)} />
            <Step label="Next" keyName="]" isIdle={others === 0} onClick={() => walk(1)} />
          </>
        )}
        <a class="desk-alone" href={shown ?? RUNS_PAGE} target="_blank" rel="noopener">Open in a new tab</a>
      </div>
      <Away />
      <Screen key={shown} id={address.id} modes={address.modes} />
    </div>
  );
}

function Step({ label, keyName, isIdle, onClick }: { label: string; keyName: string; isIdle: boolean; onClick: () => void }) {
  const reason = isIdle ? "There is nothing else to judge" : undefined;
  return (
    <button type="button" aria-disabled={isIdle ? "true" : undefined} title={reason} aria-keyshortcuts={keyName} onClick={() => !isIdle && onClick()}>
      {label} <kbd aria-hidden="true">{keyName}</kbd>
    </button>
  );
}

/** What can be judged at this desk, in the order of the lists; null before it is known. */
function useQueue(tab: string): Item[] | null {
  const experiments = useLabPages<Experiment>("/api/experiments", (each) => each.experimentId);
  const runs = useLabPages<Run>("/api/runs", (run) => run.runId);
  if (tab === "compare") {
    return experiments.isLoaded
      ? experiments.items.map((each) => ({ page: comparePage(each.experimentId), name: nameOfExperiment(each), isOpen: isOpen(each) }))
      : null;
  }
  return runs.isLoaded ? runs.items.map((run) => ({ page: reviewPage(run.runId), name: nameOfRun(run), isOpen: run.lastOverall === null })) : null;
}

function progressText(open: number, all: number, tab: string): string {
  const done = `${all - open} ${tab === "compare" ? "decided" : "rated"}`;
  return open === 0 ? `Nothing left to judge, ${done}` : `${open} to judge, ${done}`;
}

function NothingToJudge({ tab }: { tab: string }) {
  const isCompare = tab === "compare";
  return (
    <Empty
      title={isCompare ? "Nothing waits to be compared" : "Nothing waits to be reviewed"}
      text={isCompare ? "Every comparison is decided, or there is none yet." : "Every run is rated, or there is none yet."}
      commands={[isCompare ? "onceward lab compare BASELINE_DIR VARIANT_DIR" : "onceward lab review PATH"]}
      action={
        <>
          <Link href={isCompare ? "/experiments" : "/experiments?tab=runs"}>{isCompare ? "See all comparisons" : "See all runs"}</Link>
          <Link href="/experiments?tab=new">Import runs and set a comparison up</Link>
        </>
      }
    />
  );
}
