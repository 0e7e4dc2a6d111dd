// Step: all that is known of one command of a run, wherever it is looked at.

import { duration } from "../../core/format";
import { Link } from "../../core/router";
import { Ago, Code, Copy, Facts, Notice, State } from "../../ui/bits";
import { commandLook, stageText, tookSeconds, type Command, type RunDetail } from "./models";
import { tabHref } from "./tabs";

export function StepPanel({ run, command }: { run: RunDetail; command: Command }) {
  const took = tookSeconds(command.asked_at, command.answered_at);
  return (
    <section class="part step-panel" aria-label={`Step ${command.step}`}>
      <h2>Step {command.step}: {stageText(command)}</h2>
      {command.problem !== null && <Notice kind="warn">{command.problem}</Notice>}
      <Facts
        items={[
          ["State", <State {...commandLook(command.state)} />],
          ["Task", command.task_id],
          ["Agent", command.agent],
          ["Asked", <Ago at={command.asked_at} />],
          ["Took", took === null ? "no answer yet" : duration(took)],
          ["Answer", command.event === null ? "–" : [command.event, command.status].filter(Boolean).join(" ")],
          ["Sent", times(command.sent)],
          ["Tried", times(command.attempts)],
          ["Key", <KeyText text={command.idempotency_key} />],
        ]}
      />
      <p class="step-links">
        {command.artifacts.length > 0 && (
          <Link href={tabHref(run, "artifacts", { step: String(command.step) })}>
            {command.artifacts.length === 1 ? "1 artifact" : `${command.artifacts.length} artifacts`}
          </Link>
        )}
        <Link href={tabHref(run, "explain", { step: String(command.step) })}>Why was it sent?</Link>
      </p>
    </section>
  );
}

/** A key, cut in the middle of the screen and whole in the clipboard. */
export function KeyText({ text }: { text: string }) {
  return (
    <span class="key-text">
      <span title={text}><Code>{text.length > 18 ? `${text.slice(0, 15)}…` : text}</Code></span>
      <Copy text={text} label="key" />
    </span>
  );
}

export function times(number: number): string {
  return number === 1 ? "once" : number === 2 ? "twice" : `${number} times`;
}
