// States: what goes on in a group, in words. Pure; knows no page.

import { plural, sentence } from "./sentences.js";

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Say what goes on: `{kind, icon, word, text}`; null when there is nothing to say. */
export function stateOf(state) {
  return waiting(state) ?? past(state.lastFailure);
}

function waiting({ isPaused, isRunning, retryAt, lastError, isCalled, pending }) {
  if (isPaused && !isRunning) {
    return told("waits", "‖", "paused", "Paused. Messages are kept, and answered when the group goes on.");
  }
  if (isRunning) return told("works", "●", "working", "The agent is working…");
  if (retryAt) {
    const why = lastError ? ` because the last attempt failed: ${sentence(lastError)}` : ".";
    return told("waits", "↻", "waits", `It is tried again at ${clock.format(Date.parse(retryAt))}${why}`);
  }
  if (isCalled && pending) {
    return told("waits", "…", "waits", `${plural(pending, "message")} waiting for an agent.`);
  }
  return null;
}

function past(failure) {
  if (!failure) return null;
  const why = failure.error ? ` ${sentence(failure.error)}` : "";
  if (failure.state === "dead") {
    const text = `The agent failed too often, and the last messages were given up.${why} Somebody has to decide:`;
    return told("bad", "⚠", "given up", `${text} “onceward dead list” shows them.`);
  }
  return told("bad", "⚠", "broke off", `The agent failed after it had answered, so nothing is repeated.${why}`);
}

function told(kind, icon, word, text) {
  return { kind, icon, word, text };
}

/** Say what calls the agent of a group; nothing when everything does. */
export function callOf({ trigger, word }) {
  const how = { prefix: "begins with", mention: "names" }[trigger];
  return how ? `The agent answers what ${how} “${word}”, and reads the rest along with it.` : "";
}
