// Media: the videos of one or more runs, played together or apart. What one linked video does by its
// own controls, the others follow. Knows no experiment and no rating.

import { peek, runPath } from "./api.js";
import { button, el, freshId, keycap, notice, toggle } from "./dom.js";
import { clock, isNumber } from "./words.js";

const STEP_SECONDS = 5;
const SAME_SECONDS = 0.05;
const DRIFT_SECONDS = 0.35;
const SPEEDS = [0.5, 1, 1.5, 2];

/** One video, or a sentence why there is none. `whose` names it, such as "side A". */
export function videoBox(run, whose) {
  const box = el("div", { class: "video-box" });
  if (!run?.videoPath) {
    box.append(
      notice(
        "missing",
        `No video in this run${run ? "" : ", because the run cannot be read"}. You can rate it all the same.`,
      ),
    );
    return { box, video: null };
  }
  const src = `${runPath(run.runId)}/video`;
  const video = el("video", {
    src,
    controls: true,
    preload: "metadata",
    playsinline: true,
    "aria-label": `Video, ${whose}`,
    controlslist: "nodownload",
  });
  video.addEventListener("error", async () => {
    const reason = await reasonFor(src);
    const again = button("Try again", () => {
      box.replaceChildren(video);
      video.load();
    });
    box.replaceChildren(
      notice("problem", `The video cannot be played: ${reason} You can rate it all the same. `, again),
    );
  });
  box.append(video);
  return { box, video };
}

async function reasonFor(src) {
  const status = await peek(src);
  if (status === 0) return "the server does not answer.";
  if (status === 404) return "the file is no longer there.";
  if (status === 409) return "the run was changed after it was imported.";
  if (status === 403) return "it lies outside the directories that this server may read.";
  if (status >= 400) return `the server answered ${status}.`;
  return "this browser does not understand its format, or the file is damaged.";
}

/** Plays videos together; `names` are their letters. Everything on the keyboard is on this bar too. */
export class Transport {
  #videos;
  #names;
  #target = new Map();
  #active;
  #linked = true;

  constructor(videos, names) {
    this.#videos = videos;
    this.#names = names;
    this.#active = videos[0] ?? null;
    for (const video of videos) this.#follow(video);
    this.node = videos.length ? this.#bar() : null;
    if (videos.length > 1) this.listenTo(videos[0]);
  }

  get isEmpty() {
    return this.#videos.length === 0;
  }

  /** Those that one action concerns: all of them, or when unlinked the one touched last. */
  get #concerned() {
    return this.#linked ? this.#videos : [this.#active];
  }

  get #isPlaying() {
    return this.#concerned.some((video) => !video.paused && !video.ended);
  }

  playOrPause() {
    if (this.#isPlaying) this.pause();
    else this.#play();
  }

  #play() {
    const here = this.#concerned;
    if (here.every((video) => video.ended)) this.#seek(0);
    for (const video of here) if (!video.ended) start(video);
  }

  pause() {
    for (const video of this.#concerned) video.pause();
  }

  back() {
    this.#seek(this.#time - STEP_SECONDS);
  }

  forward() {
    this.#seek(this.#time + STEP_SECONDS);
  }

  get #time() {
    return Math.max(0, ...this.#concerned.map((video) => video.currentTime));
  }

  get #duration() {
    return Math.max(0, ...this.#concerned.map((video) => (isNumber(video.duration) ? video.duration : 0)));
  }

  #seek(seconds) {
    for (const video of this.#concerned) this.#move(video, seconds);
    this.#show();
  }

  /** Move one video and remember where to, so that its event is not taken for the person's. */
  #move(video, seconds) {
    const end = isNumber(video.duration) ? video.duration : seconds;
    const target = Math.max(0, Math.min(seconds, end));
    this.#target.set(video, target);
    video.currentTime = target;
  }

  #others(video) {
    return this.#linked ? this.#videos.filter((each) => each !== video) : [];
  }

  #follow(video) {
    const touched = () => this.#touch(video);
    video.addEventListener("pointerdown", touched);
    video.addEventListener("focus", touched);
    video.addEventListener("play", () => {
      if (video.paused) return;
      if (!this.#linked) touched();
      for (const other of this.#others(video)) if (other.paused && !other.ended) start(other);
      this.#show();
    });
    video.addEventListener("pause", () => {
      // At its end a video pauses by itself; the longer ones go on.
      if (video.paused && !video.ended) for (const other of this.#others(video)) other.pause();
      this.#show();
    });
    video.addEventListener("seeking", () => {
      const expected = this.#target.get(video);
      this.#target.delete(video);
      if (expected !== undefined && Math.abs(expected - video.currentTime) < SAME_SECONDS) return;
      for (const other of this.#others(video)) this.#move(other, video.currentTime);
    });
    video.addEventListener("error", () => {
      if (this.node) this.node.hidden = this.#videos.every((each) => each.error);
    });
    video.addEventListener("loadstart", () => {
      if (this.node) this.node.hidden = false;
    });
    video.addEventListener("timeupdate", () => this.#keepTogether(video));
    for (const name of ["loadedmetadata", "ended", "seeked"])
      video.addEventListener(name, () => this.#show());
  }

  /** One that had to wait for data is brought back to the first. */
  #keepTogether(video) {
    this.#show();
    const [first] = this.#videos;
    if (!this.#linked || video === first || video.seeking || first.seeking) return;
    if (video.paused || first.paused || video.ended || first.ended) return;
    if (Math.abs(video.currentTime - first.currentTime) > DRIFT_SECONDS) this.#move(video, first.currentTime);
  }

  #touch(video) {
    this.#active = video;
    this.#show();
  }

  /** Two sounds at once are noise: one video is heard, or none. */
  listenTo(chosen) {
    for (const video of this.#videos) video.muted = video !== chosen;
  }

  #bar() {
    this.playButton = button("", () => this.playOrPause(), { "aria-keyshortcuts": "Space", class: "play" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 0,
      step: 0.1,
      value: 0,
      "aria-label": "Position",
    });
    this.slider.addEventListener("input", () => this.#seek(Number(this.slider.value)));
    this.time = el("span", { class: "numbers" });
    this.who = el("span", { class: "hint" });
    const bar = el(
      "div",
      { class: "transport", role: "group", "aria-label": "Playback" },
      this.playButton,
      button(["−5 s ", keycap("J")], () => this.back(), {
        "aria-label": "Back 5 seconds",
        "aria-keyshortcuts": "j",
      }),
      button(["+5 s ", keycap("L")], () => this.forward(), {
        "aria-label": "Forward 5 seconds",
        "aria-keyshortcuts": "l",
      }),
      this.slider,
      this.time,
      this.#speed(),
      this.#videos.length > 1 && [this.#sound(), this.#link(), this.who],
    );
    this.#show();
    return bar;
  }

  #speed() {
    const id = freshId("speed");
    const select = el(
      "select",
      { id },
      SPEEDS.map((each) => el("option", { value: each, selected: each === 1 }, `${each}×`)),
    );
    select.addEventListener("change", () => {
      for (const video of this.#videos) video.playbackRate = Number(select.value);
    });
    return el("label", { for: id }, "Speed ", select);
  }

  #sound() {
    const id = freshId("sound");
    const choices = [...this.#names.map((name, index) => [index, name]), [-1, "off"]];
    const select = el(
      "select",
      { id },
      choices.map(([value, text]) => el("option", { value }, text)),
    );
    select.addEventListener("change", () => this.listenTo(this.#videos[Number(select.value)]));
    return el("label", { for: id }, "Sound ", select);
  }

  #link() {
    return toggle(
      "Linked",
      true,
      (linked) => {
        this.#linked = linked;
        const [first, ...rest] = this.#videos;
        if (linked) for (const video of rest) this.#move(video, first.currentTime);
        if (linked) for (const video of rest) if (first.paused) video.pause();
        this.#show();
      },
      { title: "Linked videos play, pause and jump together" },
    );
  }

  #show() {
    if (!this.playButton) return;
    const word = this.#isPlaying ? "Pause" : "Play";
    if (this.playButton.dataset.word !== word) {
      this.playButton.dataset.word = word;
      this.playButton.replaceChildren(word === "Play" ? "▶ " : "❚❚ ", word, " ", keycap("Space"));
      this.playButton.setAttribute("aria-label", word);
    }
    this.slider.max = this.#duration;
    this.slider.value = this.#time;
    this.slider.setAttribute("aria-valuetext", `${clock(this.#time)} of ${clock(this.#duration)}`);
    this.time.textContent = `${clock(this.#time)} / ${clock(this.#duration)}`;
    const name = this.#names[this.#videos.indexOf(this.#active)];
    this.who.textContent = this.#linked ? "" : `These controls act on ${name}, the one touched last.`;
  }
}

function start(video) {
  // A browser may refuse to play, or a pause may come first; the button shows what really happens.
  video.play().catch(() => {});
}
