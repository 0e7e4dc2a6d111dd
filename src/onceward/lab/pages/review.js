// Review: one run by itself: what it made, and what a person says of it. Nothing that is missing or broken
// stands in the way of a rating.

import { get, loadConfig, runPath } from "./api.js";
import { patiently, stopWatching, watchServer } from "./away.js";
import { nameOf, reviewPage } from "./cards.js";
import { DocumentView } from "./docview.js";
import { documentsOf, problemsOf } from "./documents.js";
import { Draft } from "./drafts.js";
import { el, entitle, fill, notice, part, reveal } from "./dom.js";
import { closing } from "./ending.js";
import { Fields } from "./fields.js";
import { Keys, playingKeys } from "./keys.js";
import { promptSection } from "./material.js";
import { Transport, videoBox } from "./media.js";
import { metricsReveal, metricsTable } from "./metrics.js";
import { modes } from "./modes.js";
import { Judgement } from "./rating.js";
import { Sender } from "./sending.js";
import { ago, exactly } from "./words.js";

export async function show(content, runId) {
  const config = await patiently(loadConfig);
  const run = await patiently(() => get(runPath(runId)));
  new ReviewPage(content, config, run).draw();
}

class ReviewPage {
  #content;
  #config;
  #run;
  #fields = new Fields();

  constructor(content, config, run) {
    this.#content = content;
    this.#config = config;
    this.#run = run;
    const empty = { ratings: {}, notes: "", tags: "" };
    this.draft = new Draft(`draft.review.${run.runId}`, empty, (text) => (this.kept.textContent = text));
  }

  draw() {
    const run = this.#run;
    entitle(nameOf(run), "How good is it?");
    const { box, video } = videoBox(run, "this run");
    this.transport = new Transport(video ? [video] : [], [""]);
    const documents = documentsOf([run], false);
    const prompt = run.artifacts?.prompt;
    const metrics = metricsReveal(this.#config.ui, () =>
      metricsTable([run], ["This run"], "Automatic metrics"),
    );
    const material = el(
      "div",
      { class: "stack" },
      this.#facts(),
      problemsOf(run).map((text) => notice("problem", text)),
      prompt && promptSection(prompt),
      (video || !documents.length) && el("section", { "aria-label": "Video" }, box, this.transport.node),
      documents.length > 0 && new DocumentView(documents, [""]).node,
      metrics,
    );
    this.judgement = new Judgement({
      whose: "",
      data: this.draft.data,
      change: () => this.draft.change(() => {}),
      fields: this.#fields,
    });
    const form = el(
      "section",
      { class: "stack", "aria-labelledby": "judge-title" },
      el("h2", { id: "judge-title" }, "Your judgement"),
      this.judgement.node,
    );
    this.sender = new Sender({
      slot: `review.${run.runId}`,
      path: "/api/feedback",
      locks: [form],
      finish: (done, body) => this.#finish(body),
      refuse: (error) => this.#fields.show(error),
      arrived: (recorded) => this.#askForMore(recorded ?? {}),
    });
    this.sender.onAsk = () => this.submit();
    this.kept = el(
      "span",
      { class: "hint", id: "draft-state" },
      this.draft.restored ? "Draft restored." : "",
    );
    const bar = el("div", { class: "bar" }, this.sender.node, this.sender.button, this.kept);
    fill(this.#content, this.#keys().node, el("div", { class: "beside" }, material, form), bar);
    watchServer();
    this.sender.resume();
  }

  #facts() {
    const run = this.#run;
    const older = run.supersedesRunId;
    return el(
      "div",
      { class: "hint" },
      el("p", { class: "path" }, run.artifactsDir),
      el(
        "p",
        {},
        "Imported ",
        el("time", { datetime: run.createdAt, title: exactly(run.createdAt) }, ago(run.createdAt)),
        older && [" · ↻ newer version of ", el("a", { href: reviewPage(older) }, "an earlier run")],
      ),
    );
  }

  #keys() {
    return new Keys([
      ...playingKeys(this.transport),
      { key: "n", says: "Write notes", run: () => this.judgement.notes.control.focus() },
      { key: "Enter", says: "Submit", run: () => this.submit() },
    ]);
  }

  submit() {
    if (this.ended || this.sender.isBusy) return;
    this.#fields.clear();
    this.sender.hideError();
    const body = this.judgement.toBody();
    if (!Object.keys(body).length) {
      this.#fields.show({
        field: "ratings.overall",
        message: "Not submitted yet: there is nothing in it",
        fix: "Rate something, write a note, or add a tag",
      });
      return;
    }
    if (modes().requireOverall && body.ratings?.overall === undefined) {
      this.#fields.show({
        field: "ratings.overall",
        message: "Not submitted yet: there is no overall rating",
        fix: "Rate it from 0 to 100",
      });
      return;
    }
    this.draft.flush();
    this.sender.send({ runId: this.#run.runId, ...body });
  }

  /** A run may be reviewed twice, but nobody shall do so without knowing. */
  #askForMore(recorded) {
    this.sender.ask(
      "⚠ Your first version had arrived, and is recorded once. What you have changed since is not recorded.",
      [
        ["Keep only the first", () => this.#finish(recorded)],
        [
          "Add this as a second judgement",
          () => {
            this.isSecond = true;
            this.submit();
          },
        ],
      ],
    );
  }

  #finish(body) {
    this.ended = true;
    stopWatching();
    this.draft.forget();
    entitle("Submitted", nameOf(this.#run));
    const rated = Object.entries(body.ratings ?? {});
    const metrics = reveal("Show the automatic metrics", () =>
      metricsTable([this.#run], ["This run"], "Automatic metrics"),
    );
    fill(
      this.#content,
      el(
        "section",
        { class: "ending", "aria-labelledby": "ending-title" },
        el(
          "h2",
          { id: "ending-title" },
          this.isSecond
            ? "Thank you. Your second judgement is recorded, beside the first."
            : "Thank you. Your judgement is recorded, once.",
        ),
        rated.length > 0 &&
          el(
            "dl",
            { class: "metrics-line numbers" },
            rated.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))),
          ),
        body.notes && el("blockquote", {}, body.notes),
        body.tags && el("p", {}, `Tags: ${body.tags.join(", ")}`),
        el("p", { id: "close-hint" }, closing(this.#config)),
      ),
      metrics,
      el("p", {}, el("a", { href: "/lab" }, "All runs")),
    );
    part("title").focus();
  }
}
