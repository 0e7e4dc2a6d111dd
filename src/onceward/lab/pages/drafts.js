// Drafts: what this browser remembers between two visits: drafts, the order of sides, pending
// submissions, switches. Where there is no room it is kept until the tab closes, and where the browser forbids
// to keep anything until the page does. Other tabs keep things under the same names.

const PREFIX = "onceward.lab.";
const memory = new Map();
/** How long something is kept: the places to try, the best first. */
const PLACES = [
  ["browser", () => localStorage],
  ["tab", () => sessionStorage],
];
const STATES = {
  browser: "Draft kept.",
  tab: "Draft kept until this tab closes.",
  page: "This browser keeps no drafts: do not reload.",
};

/** Return what was kept under a name, or null. What this page or this tab kept comes first: it is newer. */
export function recall(name) {
  const text = memory.get(name) ?? read("tab", name) ?? read("browser", name);
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/** Keep a value; return for how long: "browser", "tab", or "page" when it will not outlive the page. */
export function keep(name, value) {
  const text = JSON.stringify(value);
  memory.set(name, text);
  let found = "page";
  for (const [place] of PLACES) {
    if (found === "page" && write(place, name, text)) {
      found = place;
      continue;
    }
    // What is older goes away: nobody shall take it for this, and it makes room.
    remove(place, name);
    if (found === "page" && write(place, name, text)) found = place;
  }
  return found;
}

/** Forget what was kept under a name; where `isOurs` denies it, another tab has kept something there since. */
export function forget(name, isOurs = () => true) {
  memory.delete(name);
  for (const [place] of PLACES) {
    const text = read(place, name);
    if (text !== null && isOurs(text)) remove(place, name);
  }
}

function storage(place) {
  return PLACES.find(([each]) => each === place)[1]();
}

function read(place, name) {
  try {
    return storage(place).getItem(PREFIX + name);
  } catch {
    return null;
  }
}

function write(place, name, text) {
  try {
    storage(place).setItem(PREFIX + name, text);
    return true;
  } catch {
    return false;
  }
}

function remove(place, name) {
  try {
    storage(place).removeItem(PREFIX + name);
  } catch {
    // Nothing was kept, so there is nothing to remove.
  }
}

/** A draft: a plain object that is kept soon after each change, and at once when the page goes away. */
export class Draft {
  #timer = null;
  /** The text as it was kept or found last; null when there is nothing of ours. */
  #ours;

  /** `tell` hears in words how well it is kept. */
  constructor(name, empty, tell = () => {}) {
    this.name = name;
    const kept = recall(name);
    this.restored = kept !== null;
    this.data = { ...empty, ...(kept && typeof kept === "object" ? kept : {}) };
    this.#ours = this.restored ? JSON.stringify(kept) : null;
    this.tell = tell;
    window.addEventListener("pagehide", () => this.flush());
    window.addEventListener("storage", (event) => this.#hear(event));
  }

  /** Change the draft, and keep it when the hand rests. */
  change(edit) {
    edit(this.data);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#save(), 200);
  }

  /** Keep at once what has changed; without a change another tab's draft stays where it is. */
  flush() {
    if (this.#timer !== null) this.#save();
  }

  #save() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#ours = JSON.stringify(this.data);
    this.tell(STATES[keep(this.name, this.data)]);
  }

  /** Another tab has overwritten this draft, and is done now: keep ours again. */
  #hear({ key, oldValue, newValue }) {
    const isGone = key === PREFIX + this.name && newValue === null;
    if (isGone && this.#ours !== null && this.#ours !== oldValue) this.#save();
  }

  /** Forget it, but not what another tab has kept since. */
  forget() {
    clearTimeout(this.#timer);
    this.#timer = null;
    forget(this.name, (text) => text === this.#ours);
    this.#ours = null;
  }
}

/** Return a random order of the given things; drawn from the browser's good source. */
export function shuffled(things) {
  const order = [...things];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = below(last + 1);
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

function below(limit) {
  const [value] = crypto.getRandomValues(new Uint32Array(1));
  return Math.floor((value / 2 ** 32) * limit);
}
