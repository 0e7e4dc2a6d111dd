// Keys: what single keys do on a screen that judges, and the line that tells of them. Inside the console its own help
// lists them, too.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { hasLetters, useKeys, type KeyMap } from "../core/keys";
import { Help } from "../ui/help";
import { Keycap, Toggle } from "./parts";
import { isAlone } from "./place";

const FIELDS = "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox], [type=range], [type=button])";

/** Listen to the keys of a screen, and to Escape, which leaves a field. */
export function useJudgingKeys(map: KeyMap, submit: () => void): void {
  // Enter is no letter, but with the letters switched off it must not submit either.
  const enter: KeyMap = hasLetters.value ? { Enter: { text: "Submit", run: submit, isOnce: true } } : {};
  useKeys({ ...map, ...enter, Escape: { text: "Leave a field", run: () => undefined, isNative: true } }, "This page");
  useEffect(() => {
    const leave = (event: KeyboardEvent): void => {
      const { target } = event;
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog:modal")) return;
      if (target instanceof HTMLElement && target.matches(FIELDS) && target.closest(".lab")) target.blur();
    };
    document.addEventListener("keydown", leave);
    return () => document.removeEventListener("keydown", leave);
  }, []);
}

/** Switches the keys, and lists them. Nothing inside the console, whose frame has both. */
export function KeysLine(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const open = (): void => setOpen(true);
  useKeys(isAlone() ? { "?": { text: "List the keys", run: open } } : {}, "Everywhere");
  if (!isAlone()) return null;
  return (
    <p class="keys-line">
      <Toggle isOn={hasLetters.value} title="Single-key shortcuts on or off" onChange={(isOn) => { hasLetters.value = isOn; }}>Keys</Toggle>
      {" "}
      <button type="button" aria-keyshortcuts="?" onClick={open}>Which keys? <Keycap>?</Keycap></button>
      {isOpen && <Help onClose={() => setOpen(false)} />}
    </p>
  );
}
