// Explain: why each command was sent, and what its key is made of.

import { useEffect, useRef } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { useLive } from "../../core/live";
import { Link, route } from "../../core/router";
import { Code, Empty, ErrorBox, Facts, Json, Skeleton } from "../../ui/bits";
import { stageText, type RunDetail, type Story } from "./models";
import { KeyText } from "./step";
import { runParams } from "./tabs";

export function Explain({ run }: { run: RunDetail }) {
  const { data, error } = useLive<Schemas["CommandExplanations"]>(["runs"], "/api/orchestrator/explain", runParams(run));
  const chosen = Number(route.value.query.get("step")) || null;
  if (error !== undefined && data === undefined) return <ErrorBox error={error} />;
  if (data === undefined) return <Skeleton />;
  if (data.commands.length === 0) {
    return <Empty title="Nothing to explain yet" text="Every command that the run sends is explained here." />;
  }
  return (
    <ol class="stories">
      {data.commands.map((story, index) => (
        <StoryItem
          key={story.step}
          run={run}
          story={story}
          before={data.commands.slice(0, index).findLast((each) => each.stage === story.stage)}
          isChosen={story.step === chosen}
        />
      ))}
    </ol>
  );
}

interface StoryProps {
  run: RunDetail;
  story: Story;
  /** The last one of the same stage: the one whose key people compare it with. */
  before: Story | undefined;
  isChosen: boolean;
}

function StoryItem({ run, story, before, isChosen }: StoryProps) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) item.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const parts = story.components;
  return (
    <li ref={item} class={isChosen ? "story is-chosen" : "story"}>
      <h2>Step {story.step}: {stageText(story)} of {story.task_id}</h2>
      <ul class="why">{story.why.map((sentence) => <li key={sentence}>{sentence}</li>)}</ul>
      <details class="part" open={isChosen}>
        <summary>What its key is made of</summary>
        <Facts
          items={[
            ["Key", <KeyText text={story.idempotency_key} />],
            ["Action", <Code>{String(parts.action)}</Code>],
            ["Task", <Code>{String(parts.task_id)}</Code>],
            ["Snapshot", <Code>{String(parts.snapshot_id)}</Code>],
          ]}
        />
        <div class="grid">
          <div><span class="hint">Inputs</span><Json value={parts.inputs} label={`inputs of step ${story.step}`} /></div>
          <div>
            <span class="hint">Expected outputs</span>
            <Json value={parts.expected_outputs} label={`expected outputs of step ${story.step}`} />
          </div>
        </div>
        <p class="step-links">
          <Link href={inspectHref(run, story.step)}>Open in the key inspector</Link>
          {before !== undefined && (
            <Link href={inspectHref(run, before.step, story.step)}>Compare with step {before.step}</Link>
          )}
        </p>
      </details>
    </li>
  );
}

function inspectHref(run: RunDetail, a: number, b?: number): string {
  const query = new URLSearchParams({ ...runParams(run), a: String(a) });
  if (b !== undefined) query.set("b", String(b));
  return `/keys?${query}`;
}
