// Compare: two or more runs side by side, without their names, until somebody has decided. The sides are
// shuffled once and keep their letters. What is said afterwards is ending.js's.

import { experimentPath, get, loadConfig } from "./api.js";
import { patiently, stopWatching, watchServer } from "./away.js";
import { DocumentView } from "./docview.js";
import { documentsOf } from "./documents.js";
import { Draft, forget, recall } from "./drafts.js";
import { el, entitle, fill, whisper } from "./dom.js";
import { showEnding } from "./ending.js";
import { Fields } from "./fields.js";
import { Keys, playingKeys } from "./keys.js";
import { isEmpty } from "./leftover.js";
import { context, problemNotes, videoRow } from "./material.js";
import { metricsReveal, metricsTable } from "./metrics.js";
import { modes } from "./modes.js";
import { Questions } from "./questions.js";
import { Judgement, toBody } from "./rating.js";
import { Sender } from "./sending.js";
import { inOrder, loadRuns, sidesOf } from "./sides.js";
import { isUnfinished } from "./submission.js";
import { Verdict } from "./verdict.js";
import { said } from "./words.js";

const EMPTY = { choice: null, reason: "", answers: {}, perRun: {} };

export async function show(content, experimentId) {
  const config = await patiently(loadConfig);
  const experiment = await patiently(() => get(experimentPath(experimentId)));
  const sides = sidesOf(experiment);
  await loadRuns(sides);
  const isDecided = experiment.submission || experiment.status === "done";
  const draft = `draft.compare.${experimentId}`;
  // What was on its way when the page was reloaded is sent again: only the answer tells whose decision it is.
  if (isDecided && !isUnfinished(`compare.${experimentId}`)) {
    const ordered = inOrder(sides, experimentId, false);
    const left = bodyOf(experiment, { ...EMPTY, ...recall(draft) });
    const unused = isEmpty(left)
      ? null
      : { body: left, why: "This comparison is decided.", forget: () => forget(draft) };
    showEnding(content, { config, experiment, sides: ordered, recorded: true, unused });
    return;
  }
  const page = new ComparePage(content, config, experiment, inOrder(sides, experimentId, true));
  page.draw();
}

/** What is sent, made of a draft. */
function bodyOf(experiment, { choice, reason, answers, perRun }) {
  const sides = sidesOf(experiment);
  const winner = sides.find((side) => side.variantId === choice);
  const given = Object.fromEntries(Object.entries(answers).filter(([, answer]) => String(answer).trim()));
  return {
    outcome: winner ? "winner" : choice,
    winnerVariantId: winner?.variantId,
    reason: reason.trim() ? reason : undefined,
    answers: Object.keys(given).length ? given : undefined,
    perRun: sides.map(({ runId, variantId }) => ({ runId, variantId, ...toBody(perRun[variantId] ?? {}) })),
  };
}

class ComparePage {
  #content;
  #config;
  #experiment;
  #sides;
  #fields = new Fields();

  constructor(content, config, experiment, sides) {
    this.#content = content;
    this.#config = config;
    this.#experiment = experiment;
    this.#sides = sides;
    const empty = { ...EMPTY, answers: {}, perRun: {} };
    const tell = (text) => (this.kept.textContent = text);
    this.draft = new Draft(`draft.compare.${experiment.experimentId}`, empty, tell);
    this.change = () => this.draft.change(() => {});
  }

  draw() {
    const letters = this.#sides.map((side) => side.letter);
    entitle(this.#experiment.name ?? "Compare", "Names and metrics stay hidden until you have submitted.");
    const runs = this.#sides.map((side) => side.run);
    this.verdict = new Verdict(
      letters,
      this.#chosenBefore(),
      // By id, not by letter: what was meant stays what is sent.
      (value) => this.draft.change((data) => (data.choice = this.#sides[value]?.variantId ?? value)),
      modes().goodBadMode,
    );
    this.#fields.add("outcome", this.verdict.control, this.verdict.node);
    this.#fields.add("winnerVariantId", this.verdict.control, this.verdict.node);
    const documents = documentsOf(runs, true);
    const videos = videoRow(this.#sides);
    this.transport = videos.transport;
    const metrics = metricsReveal(this.#config.ui, () => metricsTable(runs, letters, "Automatic metrics"));
    const material = el(
      "div",
      { class: "stack" },
      context(this.#experiment, this.#sides),
      videos.node,
      problemNotes(this.#sides),
      documents.length > 0 && new DocumentView(documents, letters).node,
      metrics,
    );
    const form = el("div", { class: "stack" }, this.#questions(), this.#reason(), this.#judgements());
    const id = this.#experiment.experimentId;
    this.sender = new Sender({
      slot: `compare.${id}`,
      path: `${experimentPath(id)}/submit`,
      locks: [form, this.verdict.node],
      finish: (done, body) => this.#finish(body),
      refuse: (error, body) => this.#refuse(error, body),
      arrived: (recorded, body) => this.#showFirst(recorded, body),
    });
    this.sender.onAsk = () => this.submit();
    const keys = this.#keys();
    this.kept = el(
      "span",
      { class: "hint", id: "draft-state" },
      this.draft.restored ? "Draft restored." : "",
    );
    const bar = el(
      "div",
      { class: "bar" },
      this.sender.node,
      this.verdict.node,
      this.sender.button,
      this.kept,
    );
    fill(this.#content, keys.node, material, form, bar);
    watchServer();
    this.sender.resume();
  }

  #chosenBefore() {
    const { choice } = this.draft.data;
    const index = this.#sides.findIndex((side) => side.variantId === choice);
    return index >= 0 ? String(index) : choice;
  }

  #questions() {
    const { questions } = this.#experiment;
    if (!questions?.length) return null;
    return new Questions(questions, this.draft.data.answers, this.change, this.#fields).node;
  }

  #reason() {
    this.reason = el("textarea", { id: "reason", rows: 3, "aria-keyshortcuts": "n" });
    this.reason.value = this.draft.data.reason;
    this.reason.addEventListener("input", () =>
      this.draft.change((data) => (data.reason = this.reason.value)),
    );
    this.#fields.add("reason", this.reason);
    return el(
      "div",
      { class: "field" },
      el(
        "label",
        { for: "reason" },
        "Why? ",
        el("kbd", { "aria-hidden": "true" }, "N"),
        el("span", { class: "hint" }, " optional; it goes to the agent that asked"),
      ),
      this.reason,
    );
  }

  /** Ratings and notes of each side, folded: the choice alone is enough. */
  #judgements() {
    const places = sidesOf(this.#experiment).map((side) => side.variantId);
    const columns = this.#sides.map((side) => {
      const data = (this.draft.data.perRun[side.variantId] ??= {});
      const summary = el("summary", {});
      const change = () => {
        this.change();
        summary.textContent = `Rate ${side.letter} (${judgement.rated} of 8 rated, optional)`;
      };
      const judgement = new Judgement({
        whose: `side ${side.letter}`,
        data,
        change,
        fields: this.#fields,
        name: `perRun[${places.indexOf(side.variantId)}].`,
      });
      summary.textContent = `Rate ${side.letter} (${judgement.rated ? `${judgement.rated} of 8 rated` : "optional"})`;
      return el("details", { class: "reveal judgement" }, summary, judgement.node);
    });
    return el(
      "section",
      { "aria-labelledby": "rate-title" },
      el("h2", { id: "rate-title" }, "Each side by itself"),
      el("div", { class: `panes sides-${columns.length}` }, columns),
    );
  }

  #keys() {
    const chosen = this.verdict.outcomes
      .filter(({ key }) => key)
      .map(({ key, text, value }) => ({ key, says: text, run: () => this.#choose(value, text) }));
    return new Keys([
      ...chosen,
      ...playingKeys(this.transport),
      { key: "n", says: "Write why", run: () => this.reason.focus() },
      { key: "Enter", says: "Submit", run: () => this.submit() },
    ]);
  }

  #choose(value, text) {
    if (!this.verdict || this.sender.isBusy) return;
    this.verdict.choose(value);
    whisper(`Chosen: ${text}`);
  }

  submit() {
    if (this.ended || this.sender.isBusy) return;
    this.#fields.clear();
    if (this.verdict.value === null) {
      this.verdict.ask();
      return;
    }
    if (modes().requireOverall && this.#asksForOverall()) return;
    this.draft.flush();
    this.sender.send(bodyOf(this.#experiment, this.draft.data));
  }

  /** Say which side has no overall rating, and go there; false when all have one. */
  #asksForOverall() {
    const places = sidesOf(this.#experiment).map((side) => side.variantId);
    const side = this.#sides.find((each) => !this.draft.data.perRun[each.variantId]?.ratings?.overall);
    if (!side) return false;
    return this.#fields.show({
      field: `perRun[${places.indexOf(side.variantId)}].ratings.overall`,
      message: `Not submitted yet: side ${side.letter} has no overall rating`,
      fix: "Rate it from 0 to 100",
    });
  }

  #finish(body) {
    this.draft.forget();
    this.#showDone(body, null);
  }

  #showDone(body, unused) {
    this.ended = true;
    stopWatching();
    const winner = body.winnerVariantId ? { variantId: body.winnerVariantId } : null;
    const experiment = { ...this.#experiment, outcome: body.outcome, winner, reason: body.reason ?? null };
    showEnding(this.#content, { config: this.#config, experiment, sides: this.#sides, unused });
  }

  #refuse(error, body) {
    if (error.code === "ALREADY_SUBMITTED") {
      this.#showExisting("Another person had already submitted this comparison.", body);
      return true;
    }
    return this.#fields.show(error);
  }

  /** An earlier version of ours has decided it: that is the submission, and what came after is not. */
  #showFirst(recorded, body) {
    const why = "Your first version had arrived, and counts.";
    if (recorded === null) {
      this.#showExisting(why, body);
      return;
    }
    this.sender.close("");
    this.#showDone(recorded, this.#unused(why, body));
  }

  /** What was entered here and does not count: it stays readable, and in this browser, until it is thrown away. */
  #unused(why, body) {
    return { body, why, forget: () => this.draft.forget() };
  }

  /** It is decided, and only the server knows how. What counts may come late, that it counts is told at once. */
  async #showExisting(why, body) {
    this.ended = true;
    stopWatching();
    this.sender.close(`⚠ ${why} What you entered here was not recorded. Loading what counts…`);
    let experiment;
    try {
      experiment = await patiently(() => get(experimentPath(this.#experiment.experimentId)));
    } catch (error) {
      this.sender.close(`⚠ ${why} What counts cannot be loaded. ${said(error)} Reload the page to try again.`);
      return;
    }
    showEnding(this.#content, {
      config: this.#config,
      experiment,
      sides: this.#sides,
      recorded: true,
      unused: this.#unused(why, body),
    });
  }
}
