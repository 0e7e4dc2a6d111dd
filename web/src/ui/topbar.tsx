// Topbar: where to go, how fresh everything is, which store this is, theme and help.

import type { JSX } from "preact";
import { config } from "../core/api";
import { duration } from "../core/format";
import { connection, dataAge, isPaused, togglePause, type Connection } from "../core/live";
import { Link } from "../core/router";
import { nextTheme, theme, type Theme } from "../core/theme";
import { Icon, Mark, type IconName } from "./icons";

const WORDS: Record<Connection, string> = { live: "Live", paused: "Paused", stale: "Stale", offline: "Offline" };
const THEME_ICONS: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };
/** Younger than this is now: a number that counts from 0 to 2 carries no information. */
const AGE_SHOWN_SECONDS = 3;

export function Topbar({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }): JSX.Element {
  return (
    <header class="topbar">
      <Link class="brand" href="/" aria-label="Onceward, overview"><Mark size={26} /></Link>
      <button type="button" class="palette-button" aria-label="Go to a screen, or find something by name" onClick={onPalette}>
        <Icon name="search" />
        <span class="words">Go to, or find by name</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="topbar-space" />
      <Store />
      <Live />
      <button type="button" class="quiet square" aria-label={`Theme: ${theme.value}; change it`} title={`Theme: ${theme.value} (t)`} onClick={nextTheme}>
        <Icon name={THEME_ICONS[theme.value]} />
      </button>
      <button type="button" class="quiet square" aria-label="Help and shortcuts" title="Help and shortcuts (?)" onClick={onHelp}>
        <Icon name="help" />
      </button>
    </header>
  );
}

function Live(): JSX.Element {
  const state = connection.value;
  const age = dataAge.value ?? 0;
  const action = isPaused.value ? "Resume live updates" : "Pause live updates";
  return (
    <div class={`live ${state}`} role="group" aria-label="Freshness">
      <span class="dot" />
      <span class="word">{WORDS[state]}</span>
      <span class="age" title="How long ago the server last said anything">
        {state === "live" && age < AGE_SHOWN_SECONDS ? "now" : duration(age)}
      </span>
      <button type="button" class="quiet square" aria-label={action} title={`${action} (p)`} onClick={togglePause}>
        <Icon name={isPaused.value ? "play" : "pause"} />
      </button>
    </div>
  );
}

function Store(): JSX.Element | null {
  const settings = config.value;
  if (!settings) return null;
  const { engine, url } = settings.store;
  return (
    <>
      {settings.is_read_only && (
        <span class="read-only" title="Nothing can be changed from here">
          <Icon name="lock" />
          <span class="word">Read-only</span>
        </span>
      )}
      <span class="store" title={url}>{nameOf(engine)} · {url.split(/[/\\]/).at(-1) || url}</span>
    </>
  );
}

function nameOf(engine: string): string {
  if (/^sqlite/i.test(engine)) return "SQLite";
  return /^postgres/i.test(engine) ? "PostgreSQL" : engine;
}
