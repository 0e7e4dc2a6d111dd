// Transport: plays the videos of one or more runs, together or apart. What one linked video does by its own controls,
// the others follow. Draws nothing.

import { signal } from "@preact/signals";
import { isNumber } from "./words";

const STEP_SECONDS = 5;
/** A jump that ends this close to where it was sent is the transport's own, and not the person's. */
const SAME_SECONDS = 0.05;
/** A video that is further away from the first one is brought back to it. */
const DRIFT_SECONDS = 0.35;

export class Transport {
  /** By side; null while a side has no video, or one that cannot be played. */
  readonly #slots: (HTMLVideoElement | null)[];
  readonly #names: string[];
  readonly #targets = new WeakMap<HTMLVideoElement, number>();
  #active: HTMLVideoElement | null = null;
  #heardSlot = 0;
  #rate = 1;

  readonly count = signal(0);
  readonly isPlaying = signal(false);
  readonly time = signal(0);
  readonly duration = signal(0);
  readonly isLinked = signal(true);
  /** The name of the side that unlinked controls act on. */
  readonly activeName = signal("");

  /** `names` are the letters of the sides. */
  constructor(names: string[]) {
    this.#names = names;
    this.#slots = names.map(() => null);
  }

  get #videos(): HTMLVideoElement[] {
    return this.#slots.filter((each) => each !== null);
  }

  /** The sides that have a video, as `[index, name]`. */
  get sides(): [number, string][] {
    return this.#names.map((name, index): [number, string] => [index, name]).filter(([index]) => this.#slots[index] !== null);
  }

  /** Play a side's video along; returns what ends that. */
  add(index: number, video: HTMLVideoElement): () => void {
    const ending = new AbortController();
    this.#slots[index] = video;
    this.#active ??= video;
    this.#listen(video, ending.signal);
    this.#settle();
    return () => {
      ending.abort();
      this.#slots[index] = null;
      if (this.#active === video) this.#active = this.#videos[0] ?? null;
      this.#settle();
    };
  }

  /** Apply what the person chose to all videos, after one came or went. */
  #settle(): void {
    this.count.value = this.#videos.length;
    if (this.#names.length > 1) this.listenTo(this.#heardSlot);
    this.setRate(this.#rate);
    this.#show();
  }

  /** The videos that one action concerns: all of them, or when unlinked the one touched last. */
  get #concerned(): HTMLVideoElement[] {
    if (this.isLinked.value) return this.#videos;
    return this.#active ? [this.#active] : [];
  }

  playOrPause(): void {
    if (this.isPlaying.value) this.pause();
    else this.#play();
  }

  #play(): void {
    const here = this.#concerned;
    if (here.every((video) => video.ended)) this.seek(0);
    for (const video of here) if (!video.ended) start(video);
  }

  pause(): void {
    for (const video of this.#concerned) video.pause();
  }

  back(): void {
    this.seek(this.#now - STEP_SECONDS);
  }

  forward(): void {
    this.seek(this.#now + STEP_SECONDS);
  }

  get #now(): number {
    return Math.max(0, ...this.#concerned.map((video) => video.currentTime));
  }

  seek(seconds: number): void {
    for (const video of this.#concerned) this.#move(video, seconds);
    this.#show();
  }

  /** Move one video and remember where to, so that its event is not taken for the person's. */
  #move(video: HTMLVideoElement, seconds: number): void {
    const end = isNumber(video.duration) ? video.duration : seconds;
    const target = Math.max(0, Math.min(seconds, end));
    this.#targets.set(video, target);
    video.currentTime = target;
  }

  #others(video: HTMLVideoElement): HTMLVideoElement[] {
    return this.isLinked.value ? this.#videos.filter((each) => each !== video) : [];
  }

  #listen(video: HTMLVideoElement, signal: AbortSignal): void {
    const on = (name: string, listener: () => void): void => video.addEventListener(name, listener, { signal });
    const touched = (): void => {
      this.#active = video;
      this.#show();
    };
    on("pointerdown", touched);
    on("focus", touched);
    on("play", () => {
      if (video.paused) return;
      if (!this.isLinked.value) touched();
      for (const other of this.#others(video)) if (other.paused && !other.ended) start(other);
      this.#show();
    });
    on("pause", () => {
      // At its end a video pauses by itself; the longer ones go on.
      if (video.paused && !video.ended) for (const other of this.#others(video)) other.pause();
      this.#show();
    });
    on("seeking", () => {
      const expected = this.#targets.get(video);
      this.#targets.delete(video);
      if (expected !== undefined && Math.abs(expected - video.currentTime) < SAME_SECONDS) return;
      for (const other of this.#others(video)) this.#move(other, video.currentTime);
    });
    on("timeupdate", () => this.#keepTogether(video));
    for (const name of ["loadedmetadata", "ended", "seeked"]) on(name, () => this.#show());
  }

  /** Bring a video that had to wait for data back to the first one. */
  #keepTogether(video: HTMLVideoElement): void {
    this.#show();
    const [first] = this.#videos;
    if (!first || !this.isLinked.value || video === first || video.seeking || first.seeking) return;
    if (video.paused || first.paused || video.ended || first.ended) return;
    if (Math.abs(video.currentTime - first.currentTime) > DRIFT_SECONDS) this.#move(video, first.currentTime);
  }

  /** Play the sound of one side, or of none (-1): two sounds at once cannot be judged. */
  listenTo(index: number): void {
    this.#heardSlot = index;
    const heard = index < 0 ? null : (this.#slots[index] ?? this.#videos[0] ?? null);
    for (const video of this.#videos) video.muted = video !== heard;
  }

  setRate(rate: number): void {
    this.#rate = rate;
    for (const video of this.#videos) video.playbackRate = rate;
  }

  link(isLinked: boolean): void {
    this.isLinked.value = isLinked;
    const [first, ...rest] = this.#videos;
    if (isLinked && first) {
      for (const video of rest) {
        this.#move(video, first.currentTime);
        if (first.paused) video.pause();
      }
    }
    this.#show();
  }

  #show(): void {
    const here = this.#concerned;
    this.isPlaying.value = here.some((video) => !video.paused && !video.ended);
    this.time.value = this.#now;
    this.duration.value = Math.max(0, ...here.map((video) => (isNumber(video.duration) ? video.duration : 0)));
    this.activeName.value = this.#names[this.#slots.indexOf(this.#active)] ?? "";
  }
}

function start(video: HTMLVideoElement): void {
  // A browser may refuse to play, or a pause may come first; the button shows what really happens.
  video.play().catch(() => undefined);
}
