// Sender: the button that submits, and what is said beside it while a submission is on its way. Review and compare
// share it.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { said } from "../core/patience";
import { Keycap } from "./parts";
import { Submission } from "./submission";

const DOUBT = "An earlier attempt got no answer, and may have arrived.";
const AGAIN = "Submit again: it counts once.";

type Note = { kind: "text"; text: string } | { kind: "waiting"; why: string };

interface Question {
  text: string;
  choices: { label: string; act: () => void }[];
}

interface Hearers<B extends object> {
  /** It was recorded. */
  onDone: (body: B) => void;
  /** It was refused; return whether the page shows the error itself. */
  onRefused: (error: unknown, body: B) => boolean;
  /** An earlier version was recorded instead; null if it is not known. */
  onArrived: (recorded: B | null, body: B) => void;
}

export class Sender<B extends object> {
  /** Whether the button is off. */
  readonly isBusy = signal(false);
  /** Whether the form cannot be changed. */
  readonly isLocked = signal(false);
  readonly note = signal<Note | null>(null);
  readonly error = signal<{ lead: string; text: string } | null>(null);
  readonly question = signal<Question | null>(null);
  readonly #submission: Submission;
  readonly #hearers: Hearers<B>;
  #first = "";
  #isClosed = false;

  constructor({ slot, path, ...hearers }: { slot: string; path: string } & Hearers<B>) {
    this.#hearers = hearers;
    this.#submission = new Submission({
      slot,
      path,
      tell: (news) => {
        if (news.state === "waiting") this.note.value = { kind: "waiting", why: news.why };
        else if (news.attempt === 0) this.#say(this.#first);
      },
    });
  }

  /** Continue a submission that a reload interrupted. */
  resume(): void {
    const body = this.#submission.unfinished;
    if (body !== null) void this.send(body as B, "Your last submission was interrupted. Sending it again; it counts once.");
  }

  async send(body: B, first = "Submitting…"): Promise<void> {
    if (this.isBusy.value) return;
    this.#lock(true);
    this.#first = first;
    this.error.value = null;
    const end = await this.#submission.send(body);
    this.#lock(false);
    this.note.value = null;
    if (end.kind === "done") this.#hearers.onDone(body);
    else if (end.kind === "held") this.#say("Not sent again. Change what you like, then submit.");
    else if (end.kind === "arrived") this.#hearers.onArrived(end.body as B | null, body);
    else if (!this.#hearers.onRefused(end.error, body)) this.#showError(end.error, end.doubt);
    else if (end.doubt && !this.#isClosed) this.#say(`⚠ ${DOUBT} ${AGAIN}`);
  }

  /** Show what went wrong above the button, and what to do. */
  #showError(error: unknown, isDoubt: boolean): void {
    this.error.value = isDoubt ? { lead: `⚠ ${DOUBT}`, text: `${said(error)} ${AGAIN}` } : { lead: "⚠ Not submitted.", text: said(error) };
  }

  /** Ask a question that must be answered before anything else is sent. */
  ask({ text, choices }: Question): void {
    this.isBusy.value = true;
    const answered = (act: () => void) => (): void => {
      this.question.value = null;
      this.#submission.settle();
      this.#lock(false);
      act();
    };
    this.question.value = { text, choices: choices.map(({ label, act }) => ({ label, act: answered(act) })) };
  }

  /** Send nothing any more, and say why. */
  close(text: string): void {
    this.#isClosed = true;
    this.#submission.settle();
    this.#lock(true);
    this.#say(text);
  }

  hideError(): void {
    this.error.value = null;
  }

  tryNow(): void {
    this.#submission.tryNow();
  }

  hold(): void {
    this.#submission.hold();
  }

  /** The screen is left: stop trying until it is opened again. */
  leave(): void {
    this.#submission.leave();
  }

  #say(text: string): void {
    this.note.value = { kind: "text", text };
  }

  #lock(isLocked: boolean): void {
    this.isBusy.value = this.isLocked.value = isLocked;
  }
}

/** What is said about a submission. */
export function SenderBox<B extends object>({ sender }: { sender: Sender<B> }): JSX.Element {
  const error = useFocused<HTMLDivElement>(sender.error.value);
  const question = useFocused<HTMLDivElement>(sender.question.value);
  const note = sender.note.value;
  return (
    <div class="sender">
      {sender.error.value && (
        <div class="problem-box" tabIndex={-1} ref={error}><strong>{sender.error.value.lead}</strong>{` ${sender.error.value.text}`}</div>
      )}
      {sender.question.value && (
        <div class="asked" role="group" aria-label="Your first version" tabIndex={-1} ref={question}>
          <p>{sender.question.value.text}</p>
          <p class="row">
            {sender.question.value.choices.map(({ label, act }) => <button key={label} type="button" onClick={act}>{label}</button>)}
          </p>
        </div>
      )}
      <div class="sending" role="status">
        {note?.kind === "text" && note.text}
        {note?.kind === "waiting" && (
          <>
            <span>{`⚠ No answer from the server yet: ${note.why}. Trying again by itself; it counts once. `}</span>
            <button type="button" onClick={() => sender.tryNow()}>Try now</button>{" "}
            <button type="button" onClick={() => sender.hold()}>Edit instead</button>
            <span class="hint"> (the first attempt may have arrived all the same)</span>
          </>
        )}
      </div>
    </div>
  );
}

export function SubmitButton<B extends object>({ sender, onClick }: { sender: Sender<B>; onClick: () => void }): JSX.Element {
  return (
    <button type="button" id="submit" class="main" aria-keyshortcuts="Enter" disabled={sender.isBusy.value} onClick={onClick}>
      Submit <Keycap>Enter</Keycap>
    </button>
  );
}

/** Return the ref of an element that gets the focus when what it shows changes. */
function useFocused<E extends HTMLElement>(shown: unknown): { current: E | null } {
  const element = useRef<E>(null);
  useEffect(() => {
    if (shown) element.current?.focus();
  }, [shown]);
  return element;
}
