// Key inspector: paste a body, see its canonical form and its key, and why another one's differs.

import type { ApiError } from "../core/api";
import { route } from "../core/router";
import { Code, Empty, ErrorBox, Notice } from "../ui/bits";
import { Page } from "../ui/page";
import { pasted, useInspected, type Explanation, type Side } from "./keys/inspecting";
import { left, right, useCommands, useKept } from "./keys/kept";
import { SideView } from "./keys/side";

const EXAMPLES = [100, 120].map((price) =>
  JSON.stringify(
    {
      action: "implement",
      task_id: "T-0042",
      snapshot_id: "snap-d0ab7e60b764",
      inputs: { goal: "quote", items: [10, 20, 30, price].map((each) => ({ price: each })) },
      expected_outputs: [],
    },
    null,
    2,
  ),
);

export default function Screen() {
  useCommands();
  useKept();
  const [a, b] = [pasted(left.value), pasted(right.value)];
  const found = useInspected(a, b);
  const isPlain = a.kind === "json";
  const explained = a.kind === b.kind ? found.compared.data?.explain ?? null : null;
  const shown = explained === null ? null : isPlain ? withoutWrapping(explained) : explained;
  const places = shown?.differences.map((each) => each.path) ?? [];
  const isEmpty = left.value === "" && right.value === "";
  const steps = route.value.query;
  return (
    <Page title="Key inspector" question="Which key does a command get, and why do two keys differ?">
      {isEmpty && (
        <Empty
          title="Paste a body"
          text="A key names work by its content: action, task, snapshot, inputs and expected outputs. Paste a command on the left; with another one on the right you see what makes their keys differ."
          action={<button type="button" onClick={showExample}>Show an example</button>}
        />
      )}
      {steps.get("run") !== null && !isEmpty && (
        <p class="hint">
          {steps.get("b") === null ? `Step ${steps.get("a")}` : `Steps ${steps.get("a")} and ${steps.get("b")}`} of{" "}
          <Code>{steps.get("run")}</Code>
        </p>
      )}
      <Verdict isPlain={isPlain} explained={shown} problem={problemOf(found)} isMixed={isMixed(a.kind, b.kind)} />
      <div class="key-sides">
        <SideView name="A" text={left.value} onText={(text) => (left.value = text)} what={a} side={found.a} places={places} />
        <SideView name="B" text={right.value} onText={(text) => (right.value = text)} what={b} side={found.b} places={places} />
      </div>
    </Page>
  );
}

interface VerdictProps {
  isPlain: boolean;
  explained: Explanation | null;
  problem: ApiError | null;
  isMixed: boolean;
}

function Verdict({ isPlain, explained, problem, isMixed }: VerdictProps) {
  return (
    <div class="key-verdict" role="status">
      {isMixed && <Notice kind="info">One of them is a command and the other is not, so there is nothing to compare.</Notice>}
      {problem !== null && <ErrorBox error={problem} />}
      {explained?.same === true && <Notice kind="ok">{isPlain ? "The same value: both have the same canonical form." : "The same work: both have the same key."}</Notice>}
      {explained?.same === false && <Differences explained={explained} isPlain={isPlain} />}
    </div>
  );
}

function Differences({ explained, isPlain }: { explained: Explanation; isPlain: boolean }) {
  const number = explained.differences.length;
  return (
    <section class="part differences" aria-label="Differences">
      <h2>
        {isPlain ? "Different values" : "Different work"}: {number === 1 ? "one place differs" : `${explained.is_cut ? "more than " : ""}${number} places differ`}
      </h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Table of differences">
        <table>
          <thead>
            <tr><th scope="col">Where</th><th scope="col">A</th><th scope="col">B</th></tr>
          </thead>
          <tbody>
            {explained.differences.map((each) => (
              <tr key={each.path}>
                <th scope="row"><code>{each.path}</code></th>
                <td>{each.a === null ? <em>absent</em> : <code>{each.a}</code>}</td>
                <td>{each.b === null ? <em>absent</em> : <code>{each.b}</code>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Plain values are sent as `inputs.value`, a name that the person did not paste. */
function withoutWrapping(explained: Explanation): Explanation {
  const differences = explained.differences.map((each) => ({
    ...each,
    path: each.path.replace(/^inputs\.value\.?/, "") || "the whole value",
  }));
  return { ...explained, differences };
}

/** What is wrong with one of them is said there. */
function problemOf(found: { a: Side; b: Side; compared: Side }): ApiError | null {
  return found.a.error ?? found.b.error ? null : found.compared.error;
}

function isMixed(a: string, b: string): boolean {
  const kinds = new Set([a, b]);
  return kinds.has("command") && kinds.has("json");
}

function showExample(): void {
  [left.value = "", right.value = ""] = EXAMPLES;
}
