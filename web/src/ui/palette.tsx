// Palette: to any screen, and to any cursor, run or memory by its name, without leaving the keyboard.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Schemas } from "../api/types";
import { get } from "../core/api";
import { togglePause } from "../core/live";
import { go, route } from "../core/router";
import { nextTheme } from "../core/theme";
import { rail } from "../screens";
import { copy } from "./bits";
import { Dialog } from "./dialog";
import { Key } from "./help";
import { Icon, type IconName } from "./icons";
import { toast } from "./toasts";

interface Choice {
  group: string;
  title: string;
  note?: string;
  key?: string;
  icon: IconName;
  run: () => void;
}

const REST_MS = 150;
const FOUND_MAX = 5;

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const { found, isAsking } = useFound(text.trim());
  const id = useId();
  const choices = [...fixed(onHelp).filter((each) => matches(each, text)), ...found];
  const current = Math.min(at, choices.length - 1);
  const groups = [...new Set(choices.map((each) => each.group))];

  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [current]);

  function choose(choice: Choice | undefined): void {
    if (!choice) return;
    onClose();
    // After the dialog gave the focus back, so that the next page can take it.
    setTimeout(choice.run);
  }

  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && choices.length) {
      event.preventDefault();
      setAt((current + step + choices.length) % choices.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(choices[current]);
    } else if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onClose();
    }
  }

  return (
    <Dialog title="Go to" kind="top" onClose={onClose}>
      <div class="palette">
        <input
          type="text"
          role="combobox"
          aria-label="Go to a screen, or find something by name"
          placeholder="A screen, or the name of a cursor, run or memory"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={current >= 0 ? `${id}-${current}` : undefined}
          aria-autocomplete="list"
          autoComplete="off"
          spellcheck={false}
          autoFocus
          value={text}
          onInput={(event) => { setText(event.currentTarget.value); setAt(0); }}
          onKeyDown={onKeyDown}
        />
        <div id={`${id}-list`} class="palette-list" role="listbox" aria-label="Where to go" ref={list}>
          {groups.map((group) => (
            <div key={group} role="group" aria-label={group}>
              <div aria-hidden="true">{group}</div>
              {choices.map((choice, index) => choice.group === group && (
                <div
                  key={`${choice.title} ${choice.note ?? ""}`}
                  id={`${id}-${index}`}
                  role="option"
                  aria-selected={index === current}
                  onMouseMove={() => setAt(index)}
                  onClick={() => choose(choice)}
                >
                  <Icon name={choice.icon} />
                  <span class="title">{choice.title}</span>
                  {choice.note && <span class="hint">{choice.note}</span>}
                  {choice.key && <span class="hint"><Key name={choice.key} /></span>}
                </div>
              ))}
            </div>
          ))}
        </div>
        <p class="hint" role="status">{choices.length === 0 && (isAsking ? "Looking…" : "Nothing has that name.")}</p>
      </div>
    </Dialog>
  );
}

function fixed(onHelp: () => void): Choice[] {
  const screens = rail.flatMap((group) => group.items).map((item) => ({
    group: "Screens", title: item.title, icon: item.icon, key: `g ${item.key}`, run: () => go(item.href),
  }));
  return [
    ...screens,
    { group: "Do", title: "Pause or resume live updates", icon: "pause", key: "p", run: togglePause },
    { group: "Do", title: "Change the theme", icon: "sun", key: "t", run: nextTheme },
    { group: "Do", title: "Copy the link to this view", icon: "copy", key: "y", run: copyLink },
    { group: "Do", title: "Show all shortcuts", icon: "help", key: "?", run: onHelp },
  ];
}

/** What is named like that, of the three kinds that have names. */
function useFound(text: string): { found: Choice[]; isAsking: boolean } {
  const [state, setState] = useState<{ text: string; found: Choice[] }>({ text: "", found: [] });
  useEffect(() => {
    if (!text) return;
    const control = new AbortController();
    const timer = setTimeout(() => {
      const asked = [cursors, runs, memories].map((ask) => ask(text, control.signal).catch(() => [] as Choice[]));
      void Promise.all(asked).then((answers) => {
        if (!control.signal.aborted) setState({ text, found: answers.flat() });
      });
    }, REST_MS);
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [text]);
  return { found: text ? state.found : [], isAsking: text !== state.text };
}

async function cursors(q: string, signal: AbortSignal): Promise<Choice[]> {
  const { items } = await get<Schemas["Page_CursorItem_"]>("/api/cursors", { q, limit: FOUND_MAX }, signal);
  return items.map(({ name, state }) => ({
    group: "Cursors", title: name, note: state, icon: "cursors" as const, run: () => go(`/cursors/${encodeURIComponent(name)}`),
  }));
}

async function runs(q: string, signal: AbortSignal): Promise<Choice[]> {
  const { items } = await get<Schemas["Page_RunListItem_"]>("/api/orchestrator/runs", { q, limit: FOUND_MAX }, signal);
  return items.map(({ run_id, goal, status, workspace }) => ({
    group: "Runs", title: goal ? `${run_id}: ${goal}` : run_id, note: status, icon: "runs" as const,
    run: () => go(`/runs/${encodeURIComponent(workspace.id)}/${encodeURIComponent(run_id)}`),
  }));
}

async function memories(q: string, signal: AbortSignal): Promise<Choice[]> {
  const { items } = await get<Schemas["Page_EntityCard_"]>("/api/memory/search", { q, limit: FOUND_MAX }, signal);
  return items.map(({ name, entity_type }) => ({
    group: "Memory", title: name, note: entity_type, icon: "memory" as const, run: () => go(`/memory?name=${encodeURIComponent(name)}`),
  }));
}

function matches(choice: Choice, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const name = choice.title.toLowerCase();
  return words.every((word) => name.includes(word));
}

export function copyLink(): void {
  void copy(location.href).then((isDone) =>
    toast(isDone ? `Copied the link to ${route.peek().path}` : "The browser does not let this page copy", { kind: isDone ? "ok" : "bad" }),
  );
}
