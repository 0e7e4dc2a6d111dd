// Media: the videos of runs, and the bar that plays them. Everything that a key does, the bar does too.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { peek } from "../core/api";
import type { KeyMap } from "../core/keys";
import { Notice } from "../ui/bits";
import { runPath } from "./models";
import { Keycap, Toggle } from "./parts";
import type { Side } from "./sides";
import type { Transport } from "./transport";
import { clock } from "./words";

const SPEEDS = [0.5, 1, 1.5, 2];

/** One video, or a sentence why there is none. `whose` names it, such as "side A". */
export function VideoBox({ run, whose, transport, index = 0 }: { run: Side["run"]; whose: string; transport: Transport; index?: number }): JSX.Element {
  const [problem, setProblem] = useState<string | null>(null);
  if (!run?.videoPath) {
    return (
      <div class="video-box">
        <Notice>{`No video in this run${run ? "" : ", because the run cannot be read"}. You can rate it all the same.`}</Notice>
      </div>
    );
  }
  const src = `${runPath(run.runId)}/video`;
  return (
    <div class="video-box">
      {problem === null ? (
        <Video src={src} whose={whose} transport={transport} index={index} onError={() => void reasonFor(src).then(setProblem)} />
      ) : (
        <Notice kind="warn">
          {`The video cannot be played: ${problem} You can rate it all the same. `}
          <button type="button" onClick={() => setProblem(null)}>Try again</button>
        </Notice>
      )}
    </div>
  );
}

function Video({ src, whose, transport, index, onError }: { src: string; whose: string; transport: Transport; index: number; onError: () => void }): JSX.Element {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => (video.current ? transport.add(index, video.current) : undefined), [transport, index]);
  return <video ref={video} src={src} controls preload="metadata" playsInline aria-label={`Video, ${whose}`} controlslist="nodownload" onError={onError} />;
}

async function reasonFor(src: string): Promise<string> {
  const status = await peek(src).catch(() => 0);
  if (status === 0) return "the server does not answer.";
  if (status === 404) return "the file is no longer there.";
  if (status === 409) return "the run was changed after it was imported.";
  if (status === 403) return "it lies outside the directories that this server may read.";
  if (status >= 400) return `the server answered ${status}.`;
  return "this browser does not understand its format, or the file is damaged.";
}

/** The controls of all videos; nothing while there is no video that can be played. */
export function PlayBar({ transport }: { transport: Transport }): JSX.Element | null {
  const id = useId();
  if (transport.count.value === 0) return null;
  const [time, duration] = [transport.time.value, transport.duration.value];
  const word = transport.isPlaying.value ? "Pause" : "Play";
  return (
    <div class="transport" role="group" aria-label="Playback">
      <button type="button" class="play" aria-label={word} aria-keyshortcuts="Space" onClick={() => transport.playOrPause()}>
        {word === "Play" ? "▶ " : "❚❚ "}{word} <Keycap>Space</Keycap>
      </button>
      <button type="button" aria-label="Back 5 seconds" aria-keyshortcuts="j" onClick={() => transport.back()}>−5 s <Keycap>J</Keycap></button>
      <button type="button" aria-label="Forward 5 seconds" aria-keyshortcuts="l" onClick={() => transport.forward()}>+5 s <Keycap>L</Keycap></button>
      <input
        type="range" min={0} max={duration} step={0.1} value={time} aria-label="Position" aria-valuetext={`${clock(time)} of ${clock(duration)}`}
        onInput={(event) => transport.seek(Number(event.currentTarget.value))}
      />
      <span class="num">{`${clock(time)} / ${clock(duration)}`}</span>
      <label for={`${id}-speed`}>
        Speed <select id={`${id}-speed`} onChange={(event) => transport.setRate(Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => <option key={each} value={each} selected={each === 1}>{`${each}×`}</option>)}
        </select>
      </label>
      {transport.count.value > 1 && <Several transport={transport} id={id} />}
    </div>
  );
}

function Several({ transport, id }: { transport: Transport; id: string }): JSX.Element {
  return (
    <>
      <label for={`${id}-sound`}>
        Sound <select id={`${id}-sound`} onChange={(event) => transport.listenTo(Number(event.currentTarget.value))}>
          {transport.sides.map(([index, name]) => <option key={index} value={index}>{name}</option>)}
          <option value={-1}>off</option>
        </select>
      </label>
      <Toggle isOn={transport.isLinked.value} title="Linked videos play, pause and jump together" onChange={(isOn) => transport.link(isOn)}>Linked</Toggle>
      <span class="hint">{transport.isLinked.value ? "" : `These controls act on ${transport.activeName.value}, the one touched last.`}</span>
    </>
  );
}

/** The keys of videos; none without a video. */
export function playingKeys(transport: Transport): KeyMap {
  if (transport.count.value === 0) return {};
  return {
    Space: { text: "Play or pause", run: () => transport.playOrPause(), isOnce: true },
    k: { text: "Pause", run: () => transport.pause() },
    j: { text: "Back 5 seconds", run: () => transport.back() },
    l: { text: "Forward 5 seconds", run: () => transport.forward() },
  };
}
