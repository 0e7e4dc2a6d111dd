// Runs: the Lab's first page: what has been imported, what is to be compared, and what has been. Choosing
// runs for a comparison is choose.js's.

import { get, loadConfig } from "./api.js";
import { patiently, watchServer } from "./away.js";
import { experimentCard, nothingYet, runCard, taskLink } from "./cards.js";
import { Choice } from "./choose.js";
import { announce, button, el, entitle, fill, toggle, whisper } from "./dom.js";
import { importForm } from "./importing.js";

const PAGE = 20;
export async function show(content) {
  entitle("Experiment Lab", "What was made, and what should be judged next?");
  const page = new RunsPage(await patiently(loadConfig));
  await page.load();
  fill(content, page.node);
  watchServer(() => page.look());
}

class RunsPage {
  #config;
  #runs = [];
  #nextRuns = null;
  #experiments = [];
  #nextExperiments = null;
  #metrics = false;
  #list = el("ul", { class: "cards", id: "runs" });
  #experimentList = el("ul", { class: "cards", id: "experiments" });
  #news = el("p", { role: "status" });

  constructor(config) {
    this.#config = config;
    this.choice = new Choice(() => this.#draw());
    this.task = el("div", {});
    this.head = el("div", { class: "row" });
    this.node = el(
      "div",
      { class: "stack" },
      this.task,
      el(
        "div",
        { class: "columns" },
        el(
          "div",
          { class: "stack" },
          importForm(config.allowedRoots, (runId) => this.#imported(runId)),
          el("section", { "aria-labelledby": "runs-title" }, this.head, this.#news, this.#list),
          this.choice.node,
        ),
        el(
          "section",
          { "aria-labelledby": "experiments-title" },
          el("h2", { id: "experiments-title" }, "Comparisons"),
          this.#experimentList,
        ),
      ),
    );
  }

  async load() {
    const [runs, experiments] = await patiently(() =>
      Promise.all([get(`/api/runs?limit=${PAGE}`), get(`/api/experiments?limit=${PAGE}`)]),
    );
    [this.#runs, this.#nextRuns] = [runs.items, runs.nextCursor];
    [this.#experiments, this.#nextExperiments] = [experiments.items, experiments.nextCursor];
    this.#draw();
    await this.#offerTask();
  }

  /** What is new waits behind a button, so that nothing moves under the hand. */
  async look() {
    const [runs, experiments] = await Promise.all([
      get(`/api/runs?limit=${PAGE}`),
      get(`/api/experiments?limit=${PAGE}`),
    ]);
    const news = (items, known, seen) => items.some((each) => !known.some((old) => seen(old) === seen(each)));
    const fresh =
      news(runs.items, this.#runs, (run) => `${run.runId} ${run.lastOverall}`) ||
      news(experiments.items, this.#experiments, (each) => `${each.experimentId} ${each.status}`);
    if (!fresh) return;
    const showThem = button("Show what is new", async () => {
      fill(this.#news);
      await this.load();
    });
    fill(this.#news, showThem);
  }

  async #offerTask() {
    const task = this.#config.task;
    if (!task) return;
    const link = await taskLink(task).catch(() => null);
    if (link)
      fill(
        this.task,
        el(
          "section",
          { class: "task", "aria-label": "Your task" },
          el("p", {}, link.says),
          el("a", { class: "button main", href: link.href }, link.text),
        ),
      );
  }

  #draw() {
    const focused = document.activeElement?.id;
    fill(
      this.head,
      el("h2", { id: "runs-title" }, "Runs"),
      this.#runs.length > 0 &&
        this.#config.ui?.revealMetricsEnabled !== false &&
        toggle(
          "Show metrics (may bias you)",
          this.#metrics,
          (on) => {
            this.#metrics = on;
            this.#draw();
          },
          { id: "metrics-toggle" },
        ),
    );
    fill(
      this.#list,
      this.#runs.length
        ? this.#runs.map((run) => this.#card(run))
        : el("li", { class: "empty" }, nothingYet()),
    );
    if (this.#nextRuns)
      this.#list.append(
        el(
          "li",
          {},
          button("More runs", () => this.#more("runs"), { id: "more-runs" }),
        ),
      );
    fill(
      this.#experimentList,
      this.#experiments.length
        ? this.#experiments.map(experimentCard)
        : el(
            "li",
            { class: "empty" },
            "Nothing has been compared yet. Tick two or more runs, then press “Compare”.",
          ),
    );
    if (this.#nextExperiments)
      this.#experimentList.append(
        el(
          "li",
          {},
          button("More comparisons", () => this.#more("experiments"), { id: "more-experiments" }),
        ),
      );
    if (focused) document.getElementById(focused)?.focus();
  }

  #card(run) {
    return runCard(run, {
      place: this.choice.place(run.runId),
      older: this.#runs.find((each) => each.runId === run.supersedesRunId),
      withMetrics: this.#metrics,
      tick: () => this.choice.toggle(run),
    });
  }

  async #more(what) {
    const isRuns = what === "runs";
    const cursor = isRuns ? this.#nextRuns : this.#nextExperiments;
    const page = await patiently(() =>
      get(`/api/${what}?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`),
    );
    if (isRuns) {
      this.#runs.push(...page.items);
      this.#nextRuns = page.nextCursor;
    } else {
      this.#experiments.push(...page.items);
      this.#nextExperiments = page.nextCursor;
    }
    this.#draw();
    whisper(`${page.items.length} more shown`);
  }

  async #imported(runId) {
    const known = this.#runs.some((run) => run.runId === runId);
    await this.load();
    announce(known ? "This run was imported before and has not changed." : "Imported.");
    document.getElementById(`pick-${runId}`)?.focus();
  }
}
