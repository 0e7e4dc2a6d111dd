// Sending: the button that submits, and what is said beside it while a submission is on its way.
// Review and compare share it. Knows neither form.

import { button, el, fill, keycap } from "./dom.js";
import { Submission } from "./submission.js";
import { said } from "./words.js";

const DOUBT = "An earlier attempt got no answer, and may have arrived.";
const AGAIN = "Submit again: it counts once.";

export class Sender {
  #locks;
  #note = el("div", { class: "sending", role: "status" });
  #error = el("div", { class: "problem-box", tabindex: "-1", hidden: true });
  #question = el("div", { class: "question", role: "group", tabindex: "-1", hidden: true });
  #isClosed = false;

  /**
   * `locks` cannot be changed while something is on its way. `finish(done, body)`, `refuse(error, body)` and
   * `arrived(recorded, body)` hear the end; `refuse` returns true when it has shown the error itself, and
   * `arrived` that an earlier version was recorded instead, which is null when it is not known.
   */
  constructor({ slot, path, locks, finish, refuse, arrived }) {
    this.#locks = locks;
    this.finish = finish;
    this.refuse = refuse;
    this.arrived = arrived;
    this.submission = new Submission({ slot, path, tell: (news) => this.#show(news) });
    this.button = button(["Submit ", keycap("Enter")], () => this.onAsk(), {
      id: "submit",
      class: "main",
      "aria-keyshortcuts": "Enter",
    });
    this.onAsk = () => {};
    this.node = el("div", { class: "sender" }, this.#error, this.#question, this.#note);
  }

  get isBusy() {
    return this.button.disabled;
  }

  /** A submission that a reload interrupted goes on by itself. */
  resume() {
    const body = this.submission.unfinished;
    if (body !== null)
      this.send(body, "Your last submission was interrupted. Sending it again; it counts once.");
  }

  async send(body, first = "Submitting…") {
    if (this.isBusy) return;
    this.#lock(true);
    this.first = first;
    delete this.#note.dataset.why;
    this.#error.hidden = true;
    let end;
    try {
      end = await this.submission.send(body);
    } catch (error) {
      // Our own mistake; without this the page would stay locked for ever.
      end = { refused: error };
    }
    this.#lock(false);
    fill(this.#note);
    if (end.done) this.finish(end.done, body);
    else if (end.held) fill(this.#note, "Not sent again. Change what you like, then submit.");
    else if (end.arrived !== undefined) this.arrived(end.arrived, body);
    else if (!this.refuse(end.refused, body)) this.showError(end.refused, end.doubt);
    else if (end.doubt && !this.#isClosed) fill(this.#note, `⚠ ${DOUBT} ${AGAIN}`);
  }

  /** Show what went wrong above the button: what, and what now. */
  showError(error, doubt = false) {
    if (doubt) fill(this.#error, el("strong", {}, `⚠ ${DOUBT} `), `${said(error)} ${AGAIN}`);
    else fill(this.#error, el("strong", {}, "⚠ Not submitted. "), said(error));
    this.#error.hidden = false;
    this.#error.focus();
  }

  /** Ask something that must be answered before anything else is sent: `[[text, act], …]`. */
  ask(text, choices) {
    this.button.disabled = true;
    const answer = (act) => () => {
      this.#question.hidden = true;
      this.submission.settle();
      this.#lock(false);
      act();
    };
    const buttons = choices.map(([label, act]) => [button(label, answer(act)), " "]);
    fill(this.#question, el("p", {}, text), el("p", {}, buttons));
    this.#question.hidden = false;
    this.#question.focus();
  }

  /** Nothing can be sent any more; say why. */
  close(text) {
    this.#isClosed = true;
    this.submission.settle();
    this.#lock(true);
    fill(this.#note, text);
  }

  hideError() {
    this.#error.hidden = true;
  }

  #lock(busy) {
    this.button.disabled = busy;
    for (const node of this.#locks) node.inert = busy;
  }

  #show({ state, attempt = 0, why = "" }) {
    if (state === "sending") {
      if (attempt === 0) fill(this.#note, this.first);
      return;
    }
    // Drawn anew only when there is news, so that a button keeps the focus from one attempt to the next.
    if (this.#note.dataset.why === why) return;
    this.#note.dataset.why = why;
    fill(
      this.#note,
      el("span", {}, `⚠ No answer from the server yet: ${why}. Trying again by itself; it counts once. `),
      button("Try now", () => this.submission.tryNow()),
      " ",
      button("Edit instead", () => this.submission.hold()),
      el("span", { class: "hint" }, " (the first attempt may have arrived all the same)"),
    );
  }
}
