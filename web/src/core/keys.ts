// Keys: shortcuts, by section, and who hears them. Ignored in fields and with modifiers; what is a single
// character can be switched off.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { stored } from "./stored";

export interface Shortcut {
  text: string;
  run: () => void;
  /** Listed, but the browser does it by itself. */
  isNative?: boolean;
  /** Not repeated while the key is held down. */
  isOnce?: boolean;
}

export type KeyMap = Record<string, Shortcut>;

/** Whether shortcuts of a single character are heard. */
export const hasLetters = stored<boolean>("keys", true);
/** What was pressed of a sequence such as `g c`. */
export const pending = signal("");

const SEQUENCE_MS = 1_500;
/** Sections of the frame: whatever a screen says comes before them. */
const BASE = new Set(["Everywhere", "Go to"]);
const registered: { section: string; current: () => KeyMap }[] = [];
let timer: number | undefined;
/** Here the browser already has a meaning for Space and Enter. */
const ACTIVE = "a[href], button, summary, select, input[type=checkbox]";
/** Keys that were acted on when they went down. */
const taken = new Set<string>();

/** Listen to keys for as long as a component is there; the `?` dialog lists them. */
export function useKeys(map: KeyMap, section: string): void {
  const latest = useRef(map);
  latest.current = map;
  useEffect(() => register(section, () => latest.current), [section]);
}

export function register(section: string, current: () => KeyMap): () => void {
  const entry = { section, current };
  if (BASE.has(section)) registered.unshift(entry);
  else registered.push(entry);
  return () => {
    registered.splice(registered.indexOf(entry), 1);
  };
}

/** All that can be pressed now, by section; those of the screen come first. */
export function listed(): { section: string; keys: { key: string; text: string }[] }[] {
  const sections = new Map<string, { key: string; text: string }[]>();
  const taken = new Set<string>();
  for (const { section, current } of [...registered].reverse()) {
    const keys = sections.get(section) ?? [];
    for (const [key, { text }] of Object.entries(current())) {
      if (!taken.has(key)) keys.push({ key, text });
      taken.add(key);
    }
    if (keys.length) sections.set(section, keys);
  }
  return [...sections].map(([section, keys]) => ({ section, keys }));
}

export function startKeys(): void {
  document.addEventListener("keydown", onKey);
  // A video that has the focus acts when the key comes up; it must not undo what the key did when it went down.
  const onRise = (event: KeyboardEvent): void => { if (taken.delete(event.key)) event.preventDefault(); };
  document.addEventListener("keyup", onRise, { capture: true });
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || (event.repeat && event.key.length > 1)) return;
  const name = nameOf(event);
  const isPlain = !name.includes("Ctrl+");
  if (isPlain && (isField(event.target) || (event.key.length === 1 && !hasLetters.value))) return;
  if (document.querySelector("dialog:modal") || isForControl(event)) return;
  const full = pending.value ? `${pending.value} ${name}` : name;
  clearTimeout(timer);
  const isBegun = pending.value !== "";
  pending.value = "";
  const found = find(full) ?? (isBegun ? undefined : find(name));
  if (found) {
    if (event.repeat && found.isOnce) return;
    event.preventDefault();
    taken.add(event.key);
    found.run();
  } else if (!isBegun && isPlain && startsSomething(name)) {
    pending.value = name;
    timer = window.setTimeout(() => {
      pending.value = "";
    }, SEQUENCE_MS);
  }
}

/** The newest listener wins: that of the part which came last. */
function find(name: string): Shortcut | undefined {
  for (const { current } of [...registered].reverse()) {
    const found = current()[name];
    if (found && !found.isNative) return found;
  }
  return undefined;
}

function startsSomething(name: string): boolean {
  return registered.some(({ current }) => Object.keys(current()).some((key) => key.startsWith(`${name} `)));
}

function nameOf(event: KeyboardEvent): string {
  // A space would read as the two keys of a sequence.
  const key = event.key === " " ? "Space" : event.key;
  if (event.ctrlKey || event.metaKey) return `Ctrl+${event.shiftKey ? "Shift+" : ""}${key.toLowerCase()}`;
  if (event.altKey) return `Alt+${key}`;
  // A letter tells by itself whether Shift is down; so does every other character.
  if (key.length === 1 && key !== key.toLowerCase()) return `Shift+${key.toLowerCase()}`;
  return event.shiftKey && key.length > 1 ? `Shift+${key}` : key;
}

function isForControl({ key, target }: KeyboardEvent): boolean {
  if ((key !== " " && key !== "Enter") || !(target instanceof Element)) return false;
  return target.closest(ACTIVE) !== null || (key === " " && target.matches("input[type=radio]"));
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit", "range"].includes(target.type);
}
