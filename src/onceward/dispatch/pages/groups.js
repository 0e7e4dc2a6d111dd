// Groups: all conversations, as a page of their own and as a list beside one of them.

import { getGroups, getStatus } from "./api.js";
import { patiently } from "./away.js";
import { chip, el, entitle, fill, freshId, part } from "./dom.js";
import { plural } from "./sentences.js";
import { callOf, stateOf } from "./states.js";

const LOOK_MS = 3_000;
const LIST_LOOK_MS = 15_000;
/** At most one part in so many of the time is spent with looking. */
const SHARE = 10;
/** More than these are found by a part of their name. */
const SHOWN_MAX = 200;
const FILTER_FROM = 12;

/** Show all conversations, and what goes on in each. */
export async function show(content) {
  entitle("Conversations", "What do people say to agents, and what do agents answer?");
  const list = el("ul", { class: "cards" });
  const found = await patiently(getStatus);
  if (!found.items.length) {
    fill(content, nothing());
    again(LOOK_MS, getStatus, ({ items }) => items.length > 0 && location.reload());
    return;
  }
  const draw = filtered(list, ({ items }) => items, card);
  fill(content, draw.field, list, draw.rest);
  draw(found);
  again(LOOK_MS, getStatus, draw);
}

/** Show the names of all conversations beside the one that is open. */
export async function showBeside(current) {
  const list = el("ul", {});
  const draw = filtered(list, ({ items }) => items, (group) => beside(group, current));
  const found = await patiently(getGroups);
  fill(part("groups"), el("h2", {}, "Conversations"), draw.field, list, draw.rest);
  part("groups").hidden = false;
  draw(found);
  again(LIST_LOOK_MS, getGroups, draw);
}

function nothing() {
  return el(
    "div",
    { class: "empty" },
    el("p", {}, "There is no conversation yet. Each is a group with an agent; add one in a terminal:"),
    el("pre", {}, el("code", {}, 'onceward dispatch groups add demo --agent "python3 agent.py"')),
    el("p", {}, "It appears here by itself."),
  );
}

/** Draw a list that is drawn anew only where it has changed, so that the focus stays where it is. */
function filtered(list, itemsOf, build) {
  const id = freshId("filter");
  const input = el("input", { id, type: "search", autocomplete: "off" });
  const rest = el("p", { class: "hint" });
  const drawn = new Map();
  let latest = null;
  const draw = (found) => {
    latest = found;
    const all = itemsOf(found);
    const wanted = input.value.trim().toLowerCase();
    const fits = all.filter(({ name }) => name.toLowerCase().includes(wanted));
    const shown = fits.slice(0, SHOWN_MAX).map((group) => kept(drawn, group, build));
    if (shown.length !== list.children.length || shown.some((node, at) => node !== list.children[at])) {
      fill(list, shown);
    }
    draw.field.hidden = all.length < FILTER_FROM;
    const more = fits.length - shown.length;
    const none = fits.length ? "" : "None has such a name.";
    rest.textContent = more ? `${more} more; type a part of the name.` : none;
  };
  draw.field = el("div", { class: "field" }, el("label", { for: id }, "Find by name"), input);
  draw.rest = rest;
  input.addEventListener("input", () => draw(latest));
  return draw;
}

function kept(drawn, group, build) {
  const facts = JSON.stringify(group);
  const before = drawn.get(group.name);
  if (before?.facts === facts) return before.node;
  const node = build(group);
  drawn.set(group.name, { facts, node });
  return node;
}

function card(group) {
  const state = stateOf({ ...group, isRunning: group.inFlight !== null });
  return el(
    "li",
    { class: "card" },
    el("a", { class: "name", href: pathOf(group.name) }, group.name),
    el(
      "span",
      { class: "facts" },
      group.pending > 0 && el("span", {}, `${plural(group.pending, "message")} not handed out`),
      group.dead > 0 && chip("bad", "⚠", `${group.dead} given up`),
      state ? chip(state.kind, state.icon, state.word) : chip("", "○", "quiet"),
    ),
    callOf(group) && el("span", { class: "hint whole" }, callOf(group)),
  );
}

function beside(group, current) {
  const props = group.name === current ? { "aria-current": "page" } : {};
  const link = el("a", { href: pathOf(group.name), ...props }, group.name, group.isPaused && " (paused)");
  return el("li", {}, link);
}

function pathOf(name) {
  return `/chat/${encodeURIComponent(name)}`;
}

/** Look again for as long as the page is open and somebody may see it; less often where a look takes long. */
async function again(ms, look, draw) {
  let took = 0;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(ms, took * SHARE)));
    if (document.hidden) continue;
    const began = performance.now();
    const found = await patiently(look);
    took = performance.now() - began;
    draw(found);
  }
}
