// Drafts: what this browser remembers between two visits: drafts, the order of sides, pending
// submissions, switches. Where the browser forbids to keep anything, it is kept until the page closes.

const PREFIX = "onceward.lab.";
const memory = new Map();

/** Return what was kept under a name, or null. */
export function recall(name) {
  try {
    const text = localStorage.getItem(PREFIX + name) ?? memory.get(name) ?? null;
    return text === null ? null : JSON.parse(text);
  } catch {
    const text = memory.get(name);
    return text === undefined ? null : JSON.parse(text);
  }
}

/** Keep a value; false when it will not outlive the page. */
export function keep(name, value) {
  const text = JSON.stringify(value);
  memory.set(name, text);
  try {
    localStorage.setItem(PREFIX + name, text);
    return true;
  } catch {
    return false;
  }
}

export function forget(name) {
  memory.delete(name);
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // Nothing was kept, so there is nothing to remove.
  }
}

/** A draft: a plain object that is kept soon after each change, and at once when the page goes away. */
export class Draft {
  #timer = null;

  constructor(name, empty) {
    this.name = name;
    const kept = recall(name);
    this.restored = kept !== null;
    this.data = { ...empty, ...(kept && typeof kept === "object" ? kept : {}) };
    this.onKept = () => {};
    window.addEventListener("pagehide", () => this.#timer && this.save());
  }

  /** Change the draft, and keep it when the hand rests. */
  change(edit) {
    edit(this.data);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.save(), 200);
  }

  save() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.onKept(keep(this.name, this.data));
  }

  forget() {
    clearTimeout(this.#timer);
    this.#timer = null;
    forget(this.name);
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

/** Return a new id; randomUUID exists only on addresses that the browser calls secure. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const raw = crypto.getRandomValues(new Uint8Array(16));
  raw[6] = (raw[6] & 0x0f) | 0x40;
  raw[8] = (raw[8] & 0x3f) | 0x80;
  const hex = [...raw].map((each) => each.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
