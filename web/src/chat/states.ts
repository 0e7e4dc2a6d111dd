// States: what goes on in a group, in words. Pure; knows no page.

import { plural, sentence } from "../core/format";
import type { BoardItem, GroupItem, State } from "./models";

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

export interface Standing {
  kind: "waits" | "works" | "bad";
  icon: string;
  word: string;
  text: string;
}

/** Say what goes on; null when there is nothing to say. */
export function stateOf(state: Omit<State, "tag">): Standing | null {
  return waiting(state) ?? past(state.lastFailure);
}

/** The same of a group in a list, which leaves out what is over. */
export function stateInList(group: BoardItem): Standing | null {
  return stateOf({ ...group, isRunning: group.inFlight !== null, lastFailure: null });
}

function waiting({ isPaused, isRunning, retryAt, lastError, isCalled, pending }: Omit<State, "tag">): Standing | null {
  if (isPaused && !isRunning) {
    return standing("waits", "‖", "paused", "Paused. Messages are kept, and answered when the group goes on.");
  }
  if (isRunning) return standing("works", "●", "working", "The agent is working…");
  if (retryAt) {
    const why = lastError ? ` because the last attempt failed: ${sentence(lastError)}` : ".";
    return standing("waits", "↻", "waits", `It is tried again at ${clock.format(Date.parse(retryAt))}${why}`);
  }
  if (isCalled && pending) {
    return standing("waits", "…", "waits", `${plural(pending, "message")} waiting for an agent.`);
  }
  return null;
}

function past(failure: State["lastFailure"]): Standing | null {
  if (!failure) return null;
  const why = failure.error ? ` ${sentence(failure.error)}` : "";
  if (failure.state === "dead") {
    const text = `The agent failed too often, and the last messages are dead letters.${why} An operator decides:`;
    return standing("bad", "⚠", "dead letters", `${text} “onceward dead list” shows them.`);
  }
  return standing("bad", "⚠", "broke off", `The agent failed after it had answered, so nothing is repeated.${why}`);
}

function standing(kind: Standing["kind"], icon: string, word: string, text: string): Standing {
  return { kind, icon, word, text };
}

/** Say what calls the agent of a group; nothing when everything does. */
export function callOf({ trigger, word }: Pick<GroupItem, "trigger" | "word">): string {
  const how = trigger === "prefix" ? "begins with" : trigger === "mention" ? "names" : "";
  return how && `The agent answers what ${how} “${word}”, and reads the rest along with it.`;
}
