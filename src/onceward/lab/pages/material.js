// Material: what a comparison shows before anybody decides: what was asked for, the videos, and what is wrong
// with a side. Nothing here tells which side is which.

import { documentsOf, problemsOf } from "./documents.js";
import { el, notice, reveal } from "./dom.js";
import { Transport, videoBox } from "./media.js";

/** What the runs were asked for: on top when all were asked the same, else out of sight. */
export function context({ hypothesis }, sides) {
  const prompts = sides.map(({ run }) => run?.artifacts?.prompt ?? null);
  const same = prompts.every((prompt) => prompt === prompts[0]);
  return [
    same && prompts[0] && promptSection(prompts[0]),
    !same &&
      reveal("Show what each side was asked for (may bias you)", () =>
        sides.map((side, index) =>
          el(
            "div",
            {},
            el("h3", {}, side.letter),
            el("pre", { class: "prompt" }, prompts[index] ?? "not recorded"),
          ),
        ),
      ),
    hypothesis && reveal("Show the hypothesis (may bias you)", () => el("p", {}, hypothesis)),
  ];
}

export function promptSection(prompt) {
  return el(
    "section",
    { "aria-labelledby": "prompt-title" },
    el("h2", { id: "prompt-title" }, "What was asked for"),
    el("pre", { class: "prompt", tabindex: "0" }, prompt),
  );
}

/** The videos beside each other, and what plays them; without any video there is nothing to see. */
export function videoRow(sides) {
  if (!sides.some((side) => side.run?.videoPath)) return { node: null, transport: new Transport([], []) };
  const boxes = sides.map((side) => ({ ...videoBox(side.run, `side ${side.letter}`), name: side.letter }));
  const playing = boxes.filter(({ video }) => video);
  const transport = new Transport(
    playing.map(({ video }) => video),
    playing.map(({ name }) => name),
  );
  const cells = boxes.map(({ box, name }) =>
    el("div", { class: "side" }, el("h3", { class: "letter" }, name), box),
  );
  const node = el(
    "section",
    { "aria-labelledby": "videos-title" },
    el("h2", { id: "videos-title" }, "Videos"),
    el("div", { class: `panes sides-${sides.length}` }, cells),
    transport.node,
  );
  return { node, transport };
}

/** What is missing or broken, by side; it never stands in the way of a decision. */
export function problemNotes(sides) {
  const runs = sides.map((side) => side.run);
  const found = sides.flatMap((side) => problemsOf(side.run, runs).map((text) => [side.letter, text]));
  const hasSomething = ({ run }) => run?.videoPath || documentsOf([run], true).length;
  if (!found.length && !sides.some(hasSomething)) {
    return notice(
      "missing",
      "These runs hold nothing that can be shown here. You can judge them all the same.",
    );
  }
  return found.map(([name, text]) => notice("problem", el("strong", {}, `${name}: `), text));
}
