// Run detail: what happened, step by step, and where it is resumed.

import type { ComponentChildren } from "preact";
import { duration, sentence } from "../core/format";
import { useLive } from "../core/live";
import { route } from "../core/router";
import { Ago, Command as Terminal, ErrorBox, Facts, Notice, Skeleton, State, Tabs, useTab } from "../ui/bits";
import { Page } from "../ui/page";
import { Neighbours } from "./lists/neighbours";
import { Artifacts } from "./run/artifacts";
import { Commands } from "./run/commands";
import { Explain } from "./run/explain";
import { JournalTab } from "./run/journal";
import { runLook, tookSeconds, type RunDetail } from "./run/models";
import { TABS, type TabId } from "./run/tabs";
import { Timeline } from "./run/timeline";
import { useVerify, Verified } from "./run/verify";

const QUESTION = "What happened, step by step, and what comes next?";

export default function Screen() {
  const [, workspace = "", run = ""] = route.value.parts;
  const { data, error, reload } = useLive<RunDetail>(["runs"], "/api/orchestrator/run", { workspace, run });
  const verify = useVerify(data);
  const actions = (
    <button type="button" aria-busy={verify.isBusy || undefined} onClick={() => void verify.look()}>
      Verify files
    </button>
  );
  return (
    <Page title={run} question={QUESTION} back={{ href: "/runs", label: "Runs" }} actions={actions}>
      <Neighbours list="runs" here={route.value.path} noun="run" />
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      {error === undefined && data === undefined && <Skeleton />}
      {data !== undefined && (
        <>
          <Head run={data} />
          <Verified found={verify.found} error={verify.error} />
          <Views run={data} />
        </>
      )}
    </Page>
  );
}

function Head({ run }: { run: RunDetail }) {
  const { summary } = run;
  const look = runLook(summary);
  return (
    <section class="part" aria-label="The run in short">
      <p class="run-headline">
        <State {...look} /> <span>{run.headline}</span>
      </p>
      <Reason run={run} />
      <Resume run={run} word={look.word} />
      <Facts
        items={[
          ["Goal", run.goal ?? "–"],
          ["Tasks", summary.tasks.join(", ")],
          ["Unchecked", summary.unchecked.join(", ") || "–"],
          ["Steps done", String(summary.steps)],
          ["Started", <Ago at={summary.started_at} />],
          ["Last record", <Ago at={summary.updated_at} />],
          ["Took", duration(tookSeconds(summary.started_at, summary.updated_at))],
          ["Resumed", summary.resumed === 0 ? "never" : `${summary.resumed} ×`],
          ["Workspace", <code class="path">{run.workspace.path}</code>],
        ]}
      />
    </section>
  );
}

function Reason({ run }: { run: RunDetail }) {
  const { reason, damaged, status } = run.summary;
  if (reason === null && damaged === 0) return null;
  const lines = damaged === 1 ? "One line of its ledger is damaged." : `${damaged} lines of its ledger are damaged.`;
  return (
    <Notice kind={status === "failed" || damaged > 0 ? "bad" : "info"}>
      {reason !== null && sentence(reason)} {damaged > 0 && lines}
    </Notice>
  );
}

/** Agents run where their tools are, so a run is resumed there and not from here. */
function Resume({ run, word }: { run: RunDetail; word: string }) {
  const isDamaged = run.summary.damaged > 0;
  if (!isDamaged && (word === "done" || word === "running")) return null;
  const verb = isDamaged ? `runs verify ${run.summary.run_id}` : `resume --run ${run.summary.run_id}`;
  const retry = !isDamaged && word === "failed" ? " --retry" : "";
  const command = `onceward ${verb} --workspace ${quoted(run.workspace.path)}${retry}`;
  return (
    <div class="resume">
      <span>{isDamaged ? "To list the damage, in a terminal:" : "To resume, in a terminal:"}</span>
      <Terminal text={command} />
    </div>
  );
}

const VIEWS: Record<TabId, (props: { run: RunDetail }) => ComponentChildren> = {
  timeline: Timeline,
  commands: Commands,
  journal: JournalTab,
  artifacts: Artifacts,
  explain: Explain,
};

function Views({ run }: { run: RunDetail }) {
  const tab = useTab("tab", "timeline") as TabId;
  const View = VIEWS[tab] ?? Timeline;
  const tabs = TABS.map((each) => (each.id === "commands" ? { ...each, count: run.commands.length } : each));
  return (
    <>
      <Tabs label="Views of this run" tabs={tabs} />
      {run.is_cut && <p class="hint">Only the latest {run.commands.length} commands are shown.</p>}
      <View run={run} />
    </>
  );
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
