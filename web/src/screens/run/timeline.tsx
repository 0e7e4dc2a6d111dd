// Timeline: agents as lanes, steps as bars, crashes as lines through all of them.

import { useMemo, useRef } from "preact/hooks";
import { duration, when } from "../../core/format";
import { route, setQuery } from "../../core/router";
import { Empty } from "../../ui/bits";
import { axisOf, type Axis } from "./axis";
import type { RunDetail } from "./models";
import { shapeOf, stepText, type Lane, type Piece, type Shape } from "./pieces";
import { StepPanel } from "./step";

/** From here on the flag of a crash stands before its line, or it would not fit. */
const LATE = 0.85;

export function Timeline({ run }: { run: RunDetail }) {
  const query = route.value.query;
  const isCollapsed = query.get("idle") !== "shown";
  const shape = useMemo(() => shapeOf(run), [run]);
  const axis = useMemo(() => axisOf(shape.whole, shape.busy, isCollapsed), [shape, isCollapsed]);
  const chosen = Number(query.get("step")) || null;
  const command = run.commands.find((each) => each.step === chosen);
  if (run.commands.length === 0) {
    return <Empty title="No steps yet" text="The run has begun and has not asked an agent for anything so far." />;
  }
  return (
    <div class="part">
      <div class="timeline-tools">
        <p class="timeline-summary">{summaryOf(run, shape)}</p>
        <label class="check">
          <input
            type="checkbox"
            checked={isCollapsed}
            onChange={(event) => setQuery({ idle: event.currentTarget.checked ? null : "shown" }, { replace: true })}
          />
          Collapse idle time
        </label>
      </div>
      <Chart run={run} shape={shape} axis={axis} chosen={chosen} />
      <Legend shape={shape} axis={axis} />
      {command === undefined ? (
        <p class="hint">Choose a bar to see its step; with the arrow keys you walk from step to step.</p>
      ) : (
        <StepPanel run={run} command={command} />
      )}
    </div>
  );
}

interface ChartProps {
  run: RunDetail;
  shape: Shape;
  axis: Axis;
  chosen: number | null;
}

function Chart({ run, shape, axis, chosen }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const walk = (event: KeyboardEvent) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (way === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const steps = run.commands.map((each) => each.step);
    const next = steps[steps.indexOf(chosen ?? 0) + way] ?? chosen ?? steps[0]!;
    choose(next);
    box.current?.querySelector<HTMLElement>(`[data-step="${next}"]`)?.focus();
  };
  return (
    <div class="timeline" ref={box} role="group" aria-label="Timeline of the run" onKeyDown={walk}>
      <div class="timeline-row timeline-axis" aria-hidden="true">
        <span class="timeline-name" />
        <div class="timeline-track">
          {axis.ticks.map((tick) => (
            <span key={tick.seconds} class="timeline-tick" style={{ left: percent(tick.at) }}>
              {tick.seconds === 0 ? "0" : `+${duration(tick.seconds)}`}
            </span>
          ))}
        </div>
      </div>
      <LivesRow shape={shape} axis={axis} />
      {shape.lanes.map((lane) => (
        <LaneRow key={lane.agent} lane={lane} axis={axis} shape={shape} chosen={chosen} first={run.commands[0]!.step} />
      ))}
      <div class="timeline-lines" aria-hidden="true">
        {axis.gaps.map((gap) => (
          <span key={gap.from} class="timeline-gap" style={{ left: percent(gap.from), width: percent(gap.to - gap.from) }} />
        ))}
        {shape.crashes.map((crash, index) => {
          const at = axis.place(crash.at);
          return (
            <span key={crash.at} class={at > LATE ? "timeline-crash is-late" : "timeline-crash"} style={{ left: percent(at) }}>
              <span class="timeline-flag">crash{shape.crashes.length > 1 ? ` ${index + 1}` : ""}</span>
            </span>
          );
        })}
      </div>
    </div>
  );
}

function LivesRow({ shape, axis }: { shape: Shape; axis: Axis }) {
  return (
    <div class="timeline-row">
      <span class="timeline-name">orchestrator</span>
      <div class="timeline-track">
        {shape.lives.map((life, index) => {
          const text = `process ${index + 1}: ${life.ending} after ${duration((life.to - life.from) / 1000)}`;
          return (
            <span
              key={life.from}
              class={`timeline-life is-${life.ending}`}
              role="img"
              aria-label={text}
              title={text}
              style={place(axis, life)}
            />
          );
        })}
      </div>
    </div>
  );
}

interface LaneRowProps {
  lane: Lane;
  axis: Axis;
  shape: Shape;
  chosen: number | null;
  first: number;
}

function LaneRow({ lane, axis, chosen, first }: LaneRowProps) {
  return (
    <div class="timeline-row">
      <span class="timeline-name">{lane.agent}</span>
      <div class="timeline-track">
        {lane.steps.flatMap(({ command, pieces }) =>
          pieces.map((piece, index) => (
            <button
              key={`${command.step}.${index}`}
              type="button"
              class={barClass(piece, command.state)}
              style={place(axis, piece)}
              aria-label={index === 0 ? stepText(command) : `step ${command.step} again after a crash`}
              title={`${stepText(command)}, ${duration((piece.to - piece.from) / 1000)}`}
              aria-pressed={command.step === chosen}
              data-step={index === 0 ? command.step : undefined}
              tabIndex={index === 0 && command.step === (chosen ?? first) ? 0 : -1}
              onClick={() => choose(command.step)}
            >
              <span aria-hidden="true">{command.step}</span>
            </button>
          )),
        )}
      </div>
    </div>
  );
}

function Legend({ shape, axis }: { shape: Shape; axis: Axis }) {
  const hasAgain = shape.busy.some((each) => (each as Piece).isAgain);
  return (
    <ul class="timeline-legend">
      <li><span class="swatch" aria-hidden="true" />done once</li>
      {hasAgain && <li><span class="swatch is-again" aria-hidden="true" />sent again with the same key</li>}
      {shape.crashes.length > 0 && <li><span class="swatch is-crash" aria-hidden="true" />crash</li>}
      {axis.gaps.length > 0 && (
        <li>
          <span class="swatch is-gap" aria-hidden="true" />
          idle, not to scale: {axis.gaps.map((gap) => duration(gap.seconds)).join(", ")}
        </li>
      )}
    </ul>
  );
}

function summaryOf(run: RunDetail, shape: Shape): string {
  const agents = shape.lanes.length;
  const took = duration((shape.whole.to - shape.whole.from) / 1000);
  const steps = `${run.commands.length} ${run.commands.length === 1 ? "step" : "steps"}`;
  const base = `${steps} by ${agents} ${agents === 1 ? "agent" : "agents"} in ${took}`;
  if (run.crashes.length === 0) return `${base}, no crash.`;
  const times = run.crashes.map((each) => `${when(each.at).absolute} (${each.text})`);
  return `${base}. Crashed at ${times.join(", then at ")}.`;
}

function barClass(piece: Piece, state: string): string {
  const classes = ["timeline-bar", `is-${state}`];
  if (piece.isAgain) classes.push("is-again");
  if (piece.isOpen) classes.push("is-open");
  return classes.join(" ");
}

function choose(step: number): void {
  setQuery({ step: String(step) }, { replace: true });
}

function place(axis: Axis, span: { from: number; to: number }): { left: string; width: string } {
  const left = axis.place(span.from);
  return { left: percent(left), width: percent(axis.place(span.to) - left) };
}

function percent(part: number): string {
  return `${(part * 100).toFixed(3)}%`;
}
