// Action: how something is done to the system: dry run, numbers, confirmation, receipt, the way back.
// Owns that one intention is one key, however often it is pressed or retried.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { act, acted, ApiError, asApiError, config, freshKey, post } from "../core/api";
import { sentence } from "../core/format";
import { ErrorBox, Json } from "./bits";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { toast } from "./toasts";

export { toast } from "./toasts";

const READ_ONLY = "This console is read-only; start it without --read-only";
const PLAN_REST_MS = 300;

export interface Undo<T> {
  path: string;
  /** Made when it is undone: only what was done here may be taken back, and not what came after it. */
  body: object | ((result: T) => object | Promise<object>);
  /** Said when it is undone. */
  success?: string;
}

interface ActionButtonProps {
  label: string;
  /** Why it cannot be done now; null when it can. */
  disabledReason?: string | null;
  kind?: "plain" | "danger";
  onClick: () => void;
  /** For rows: "Pause, queue-a". */
  name?: string;
  isBusy?: boolean;
  /** It only shows what would happen, so a read-only console allows it too. */
  isHarmless?: boolean;
}

/** Disabled with a reason, never hidden; what cannot be done can still be asked about. */
export function ActionButton({ label, disabledReason, kind = "plain", onClick, name, isBusy, isHarmless }: ActionButtonProps): JSX.Element {
  const id = useId();
  const reason = config.value?.is_read_only && !isHarmless ? READ_ONLY : disabledReason;
  return (
    <span class="action">
      <button
        type="button"
        class={kind}
        aria-label={name}
        aria-disabled={reason || isBusy ? "true" : undefined}
        aria-busy={isBusy || undefined}
        aria-describedby={reason ? id : undefined}
        title={reason ?? undefined}
        onClick={() => { if (!reason && !isBusy) onClick(); }}
      >
        {label}
      </button>
      {reason && <span id={id} class="only-heard">{sentence(reason)}</span>}
    </span>
  );
}

interface ActionOptions<T> {
  path: string;
  body: () => object;
  onDone?: (result: T) => void;
  success: (result: T) => string;
  undo?: Undo<T>;
  seenDiff?: (error: ApiError) => ComponentChildren;
}

/** Do something at once: for what is harmless, or can be taken back. */
export function useAction<T>(opts: ActionOptions<T>): { run: () => Promise<void>; isBusy: boolean; error: ApiError | undefined } {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const intent = useIntent();
  const isRunning = useRef(false);
  async function run(): Promise<void> {
    if (isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    setError(undefined);
    const body = opts.body();
    try {
      const result = await act<T>(opts.path, body, { key: intent.keyFor(body) });
      intent.end();
      toast(opts.success(result), { undo: undoOf(opts.undo, result) });
      opts.onDone?.(result);
    } catch (problem) {
      const failed = asApiError(problem);
      setError(failed);
      if (!failed.isPassing) intent.end();
      if (failed.status === 409) acted.value += 1;
      toast(failed.status === 409 ? changed(failed) : errorText(failed), { kind: "bad" });
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  }
  return { run, isBusy, error };
}

interface PlannedProps<T> {
  title: string;
  onClose: () => void;
  /** Fields that `body` reads. */
  form?: ComponentChildren;
  path: string;
  body: () => object;
  describe: (plan: T) => ComponentChildren;
  /** To be typed before it can be done. */
  confirmWord?: string;
  confirmLabel: (plan: T) => string;
  success: (result: T) => string;
  undo?: Undo<T>;
  onDone?: (result: T) => void;
  /** Why this plan cannot be carried out; null when it can. */
  refuse?: (plan: T) => string | null;
  kind?: "plain" | "danger";
  seenDiff?: (error: ApiError) => ComponentChildren;
}

/** Shows what would happen, in numbers, and does it after that. */
export function PlannedAction<T>(props: PlannedProps<T>): JSX.Element {
  const body = props.body();
  const asked = JSON.stringify(body);
  const { plan, error: planError, replan } = usePlan<T>(props.path, asked);
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<ApiError>();
  const intent = useIntent();
  const isRunning = useRef(false);
  const isGone = useRef(false);
  useEffect(() => () => { isGone.current = true; }, []);
  const current = plan?.asked === asked ? plan.answer : undefined;
  const isTyped = props.confirmWord === undefined || typed.trim() === props.confirmWord.trim();
  const reason = config.value?.is_read_only ? READ_ONLY
    : current === undefined ? (planError ? "It cannot be done like this" : "Counting what would happen")
    : props.refuse?.(current) ?? (isTyped ? null : `Type ${props.confirmWord} first`);

  async function run(): Promise<void> {
    if (reason || isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    setFailed(undefined);
    try {
      const result = await act<T>(props.path, { ...body, dry_run: false }, { key: intent.keyFor(body) });
      toast(props.success(result), { undo: undoOf(props.undo, result) });
      props.onDone?.(result);
      // The person may have closed it and opened another one by now.
      if (!isGone.current) props.onClose();
    } catch (problem) {
      const error = asApiError(problem);
      setFailed(error);
      if (isGone.current) toast(`Not done (${props.title}): ${error.status === 409 ? changed(error) : errorText(error)}`, { kind: "bad" });
      if (!error.isPassing) intent.end();
      // What is shown is asked for again, and with it the version that the next attempt carries.
      if (error.status === 409) { acted.value += 1; replan(); }
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  }

  const label = current !== undefined ? props.confirmLabel(current) : planError ? "Not possible" : "Counting…";
  return (
    <Dialog
      title={props.title}
      onClose={props.onClose}
      actions={
        <>
          <button type="button" onClick={props.onClose}>Cancel</button>
          <ActionButton label={label} kind={props.kind === "danger" || props.confirmWord ? "danger" : "plain"} disabledReason={reason} isBusy={isBusy} onClick={() => void run()} />
        </>
      }
    >
      <form class="stack" onSubmit={(event) => { event.preventDefault(); void run(); }}>
        {props.form}
        <section class="plan" aria-label="What will happen" aria-busy={current === undefined && !planError}>
          {planError ? <ErrorBox error={planError} onRetry={replan} /> : plan ? props.describe(plan.answer) : <p class="hint">Counting what would happen…</p>}
        </section>
        {props.confirmWord !== undefined && <Confirm word={props.confirmWord} value={typed} onInput={setTyped} />}
        {failed && <Failed error={failed} seenDiff={props.seenDiff} />}
        <button type="submit" hidden />
      </form>
    </Dialog>
  );
}

function Confirm({ word, value, onInput }: { word: string; value: string; onInput: (text: string) => void }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>Type <code>{word}</code> to confirm</label>
      <input id={id} type="text" value={value} autoComplete="off" spellcheck={false} onInput={(event) => onInput(event.currentTarget.value)} />
    </div>
  );
}

/** A conflict is information, not an error: another action came first. */
function Failed({ error, seenDiff }: { error: ApiError; seenDiff?: (error: ApiError) => ComponentChildren }): JSX.Element {
  if (error.status !== 409) return <ErrorBox error={error} />;
  const { seen, now } = error.context;
  return (
    <div class="notice warn" role="alert">
      <Icon name="warn" />
      <div>
        <p class="what">Changed since you looked</p>
        <p>{sentence(error.message)} Nothing was done. The numbers above are new; look again before you go on.</p>
        {seenDiff ? seenDiff(error) : (seen !== undefined || now !== undefined) && <Json label="what changed" value={{ seen, now }} />}
      </div>
    </div>
  );
}

/** Ask what would happen, again whenever the question changes. */
function usePlan<T>(path: string, asked: string): { plan: { asked: string; answer: T } | undefined; error: ApiError | undefined; replan: () => void } {
  const [plan, setPlan] = useState<{ asked: string; answer: T }>();
  const [error, setError] = useState<ApiError>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(() => {
      post<T>(path, { ...(JSON.parse(asked) as object), dry_run: true })
        .then((answer) => { if (!isOver) { setPlan({ asked, answer }); setError(undefined); } })
        .catch((problem: unknown) => { if (!isOver) setError(asApiError(problem)); });
    }, plan === undefined ? 0 : PLAN_REST_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [path, asked, turn]);
  return { plan, error, replan: () => setTurn((old) => old + 1) };
}

/** One key for one intention: the same while the same thing is tried again. */
function useIntent(): { keyFor: (body: object) => string; end: () => void } {
  const kept = useRef<{ body: string; key: string } | null>(null);
  return {
    keyFor(body) {
      const text = JSON.stringify(body);
      if (kept.current?.body !== text) kept.current = { body: text, key: freshKey() };
      return kept.current.key;
    },
    end() {
      kept.current = null;
    },
  };
}

function undoOf<T>(undo: Undo<T> | undefined, result: T): (() => void) | undefined {
  if (!undo) return undefined;
  const { path, body, success = "Undone" } = undo;
  return () => {
    Promise.resolve()
      .then(() => (typeof body === "function" ? (body as (result: T) => object | Promise<object>)(result) : body))
      .then((sent) => act(path, sent))
      .then(() => toast(success))
      .catch((problem: unknown) => toast(`Not undone: ${errorText(asApiError(problem))}`, { kind: "bad" }));
  };
}

function changed(error: ApiError): string {
  return `Changed since you looked: ${sentence(error.message)} Look again, then decide.`;
}

function errorText(error: ApiError): string {
  return sentence(error.message) + (error.fix ? ` ${sentence(error.fix)}` : "");
}
