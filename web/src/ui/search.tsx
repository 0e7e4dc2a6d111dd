// Search: the one box of a list. `/` leads there, what is typed is in the address, and the words it knows
// are offered while one types.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { route, setQuery } from "../core/router";
import { Icon } from "./icons";

const REST_MS = 250;
const OFFERS_MAX = 8;

interface SearchProps {
  label: string;
  param?: string;
  /** Whole words such as `state:paused`, offered when a word begins like them. */
  suggestions?: string[];
}

export function SearchBox({ label, param = "q", suggestions = [] }: SearchProps): JSX.Element {
  const inAddress = route.value.query.get(param) ?? "";
  const [text, setText] = useState(inAddress);
  const [offer, setOffer] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const sent = useRef(inAddress);
  const id = useId();

  useEffect(() => {
    // The address changed elsewhere: "clear the filter", or the back button.
    if (inAddress !== sent.current) setText(inAddress);
    sent.current = inAddress;
  }, [inAddress]);
  useEffect(() => {
    if (text.trim() === sent.current) return;
    const timer = setTimeout(() => send(text), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useKeys({ "/": { text: "Search", run: () => { field.current?.focus(); field.current?.select(); } } }, "List");

  function send(value: string): void {
    sent.current = value.trim();
    setQuery({ [param]: sent.current || null }, { replace: true });
  }

  const word = text.split(" ").at(-1) ?? "";
  const offers = isOpen ? offersFor(word, text, suggestions) : [];

  function take(chosen: string): void {
    const full = text.slice(0, text.length - word.length) + chosen;
    setText(chosen.endsWith(":") ? full : `${full} `);
    if (!chosen.endsWith(":")) send(full);
    setOffer(-1);
    field.current?.focus();
  }

  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && offers.length) {
      event.preventDefault();
      setOffer((old) => (old + step + offers.length + (old < 0 && step < 0 ? 1 : 0)) % offers.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const chosen = offers[offer];
      if (chosen) take(chosen);
      else send(text);
      setOpen(Boolean(chosen));
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (offers.length) setOpen(false);
      else if (text) { setText(""); send(""); }
      else field.current?.blur();
    }
  }

  return (
    <div class="search" role="search">
      <Icon name="search" />
      <input
        ref={field}
        type="text"
        aria-label={label}
        placeholder={label}
        value={text}
        autoComplete="off"
        spellcheck={false}
        role={suggestions.length ? "combobox" : "searchbox"}
        {...(suggestions.length && {
          "aria-expanded": offers.length > 0,
          "aria-controls": `${id}-list`,
          "aria-autocomplete": "list" as const,
          "aria-activedescendant": offer >= 0 && offers.length ? `${id}-${offer}` : undefined,
        })}
        onInput={(event) => { setText(event.currentTarget.value); setOpen(true); setOffer(-1); }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      {suggestions.length > 0 && (
        <ul id={`${id}-list`} role="listbox" aria-label="Suggested words" class="offers" hidden={!offers.length}>
          {offers.map((each, index) => (
            <li
              key={each}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === offer}
              onMouseDown={(event) => { event.preventDefault(); take(each); }}
            >
              {each}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function offersFor(word: string, text: string, suggestions: string[]): string[] {
  const used = new Set(text.split(" "));
  return suggestions
    .filter((each) => !used.has(each) && each.toLowerCase().startsWith(word.toLowerCase()))
    .slice(0, OFFERS_MAX);
}
