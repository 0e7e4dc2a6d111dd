// Material: what a comparison shows before the decision: what was asked for, the videos, and what is wrong with a
// side. Nothing here tells which side is which.

import type { JSX } from "preact";
import { Notice } from "../ui/bits";
import { blindProblemsOf, documentsOf } from "./documents";
import { PlayBar, VideoBox } from "./media";
import type { ExperimentDetail } from "./models";
import { Prompt, Reveal } from "./parts";
import type { Side } from "./sides";
import type { Transport } from "./transport";

/** What the runs were asked for: at the top if all were asked the same, else out of sight. */
export function Context({ experiment: { hypothesis }, sides }: { experiment: ExperimentDetail; sides: Side[] }): JSX.Element {
  const prompts = sides.map(({ run }) => run?.artifacts?.prompt ?? null);
  const isSame = prompts.every((prompt) => prompt === prompts[0]);
  return (
    <>
      {isSame && prompts[0] && <PromptSection prompt={prompts[0]} />}
      {!isSame && (
        <Reveal summary="Show what each side was asked for (may bias you)">
          {() => sides.map((side, index) => (
            <div key={side.variantId}>
              <h3>{side.letter}</h3>
              <Prompt label={`What side ${side.letter} was asked for`}>{prompts[index] ?? "not recorded"}</Prompt>
            </div>
          ))}
        </Reveal>
      )}
      {hypothesis && <Reveal summary="Show the hypothesis (may bias you)">{() => <p>{hypothesis}</p>}</Reveal>}
    </>
  );
}

export function PromptSection({ prompt }: { prompt: string }): JSX.Element {
  return (
    <section aria-labelledby="prompt-title">
      <h2 id="prompt-title">What was asked for</h2>
      <pre class="prompt" tabIndex={0}>{prompt}</pre>
    </section>
  );
}

/** The videos beside each other, and what plays them; nothing if no side has one. */
export function Videos({ sides, transport }: { sides: Side[]; transport: Transport }): JSX.Element | null {
  if (!sides.some((side) => side.run?.videoPath)) return null;
  return (
    <section aria-labelledby="videos-title">
      <h2 id="videos-title">Videos</h2>
      <div class={`panes sides-${sides.length}`}>
        {sides.map((side, index) => (
          <div key={side.variantId} class="pane">
            <h3 class="letter">{side.letter}</h3>
            <VideoBox run={side.run} whose={`side ${side.letter}`} transport={transport} index={index} />
          </div>
        ))}
      </div>
      <PlayBar transport={transport} />
    </section>
  );
}

/** What is missing or broken, by side. */
export function Problems({ sides }: { sides: Side[] }): JSX.Element {
  const runs = sides.map((side) => side.run);
  const found = sides.flatMap((side) => blindProblemsOf(side.run, runs).map((text) => ({ letter: side.letter, text })));
  const isShown = (run: Side["run"]): boolean => Boolean(run?.videoPath) || documentsOf([run], true).length > 0;
  if (!found.length && !runs.some(isShown)) return <Notice>These runs hold nothing that can be shown here. You can judge them all the same.</Notice>;
  return <>{found.map(({ letter, text }) => <Notice key={`${letter} ${text}`} kind="warn"><strong>{`${letter}: `}</strong>{text}</Notice>)}</>;
}
