// Log: what was said, in the order of its numbers, and below it what is on its way. Stays where it is read,
// and follows what is new only when its end is in sight. Knows no request.

import { button, chip, el, fill } from "./dom.js";
import { exactly, plural } from "./sentences.js";

const NEAR_PX = 60;
const sameDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const otherDay = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const MAYBE = "The channel did not say whether it has shown this.";

export class Log {
  #said = new Map();
  #onItsWay = new Map();
  #unseen = 0;
  #items = el("div", { class: "items" });
  #pending = el("div", { class: "items" });
  #more = button("Show earlier messages", () => this.#hooks.earlier(), { hidden: true });
  #empty = el("p", { class: "hint nothing" }, "Nothing was said yet.");
  /** Whether the end stays in sight. */
  #follows = true;
  #hooks;

  /** `retry(id)` and `takeBack(message)` are asked for a message that was refused, `earlier()` for older ones. */
  constructor(label, hooks) {
    this.#hooks = hooks;
    this.scroller = el(
      "div",
      { class: "log", role: "log", "aria-label": label, "aria-busy": true, tabindex: "0" },
      el("p", { class: "above" }, this.#more),
      this.#empty,
      this.#items,
      this.#pending,
    );
    this.jump = button("", () => this.#toEnd(), { class: "jump", hidden: true });
    this.node = el("div", { class: "log-frame" }, this.scroller, this.jump);
    this.scroller.addEventListener("scroll", () => {
      this.#follows = this.#isAtEnd;
      if (this.#follows) this.#seen();
    });
    new ResizeObserver(() => this.#follows && this.#toEnd()).observe(this.scroller);
  }

  /** Begin anew. */
  clear() {
    this.#said.clear();
    fill(this.#items);
  }

  /** Add what was said; what came before is put in its place. `isOld` does not count as news. */
  add(items, { isOld = false } = {}) {
    const follows = this.#isAtEnd;
    const { scrollHeight, scrollTop } = this.scroller;
    let fresh = 0;
    for (const item of items) fresh += this.#put(item) ? 1 : 0;
    this.#empty.hidden = this.#said.size + this.#onItsWay.size > 0;
    if (isOld) this.scroller.scrollTop = scrollTop + this.scroller.scrollHeight - scrollHeight;
    else if (follows) this.#toEnd();
    else if (fresh) this.#tellOf(fresh);
  }

  /** What is there is read aloud only when it is new. */
  ready() {
    this.scroller.setAttribute("aria-busy", "false");
    this.#toEnd();
  }

  /** Offer what was said before, if there is something. */
  offerEarlier(hasMore) {
    // What is hidden gives the focus away, and it should stay here.
    if (!hasMore && this.#more === document.activeElement) this.scroller.focus();
    this.#more.hidden = !hasMore;
  }

  /** Show a message that is on its way, or what became of it. */
  show(message) {
    if (this.#said.has(`message ${message.id}`)) return;
    const node = el("article", { class: "said message own" }, ...this.#onWay(message));
    const before = this.#onItsWay.get(message.id);
    if (before) before.replaceWith(node);
    else this.#pending.append(node);
    this.#onItsWay.set(message.id, node);
    this.#empty.hidden = true;
    if (!before) this.#toEnd();
  }

  /** A message is not on its way any more. */
  forget(id) {
    this.#onItsWay.get(id)?.remove();
    this.#onItsWay.delete(id);
  }

  #put(item) {
    const name = item.type === "message" ? `message ${item.id}` : `reply ${item.key}`;
    const before = this.#said.get(name);
    const node = item.type === "message" ? messageNode(item) : replyNode(item);
    node.dataset.seq = item.seq;
    before?.remove();
    this.#said.set(name, node);
    let after = this.#items.lastElementChild;
    while (after && Number(after.dataset.seq) > item.seq) after = after.previousElementSibling;
    if (after) after.after(node);
    else this.#items.prepend(node);
    if (item.type === "message") this.forget(item.id);
    return !before;
  }

  #onWay(message) {
    const { id, sender, text, timestamp, trouble, refused, isSent, isBehind } = message;
    const top = head(sender, timestamp);
    if (refused) {
      const buttons = [
        button("Send again", () => this.#hooks.retry(id)),
        button("Take back", () => this.#hooks.takeBack(message)),
      ];
      return [top, body(text), el("p", { class: "note bad" }, `⚠ Not sent. ${refused} `, ...buttons)];
    }
    if (isSent) return [top, body(text)];
    if (!trouble && !isBehind) return [top, body(text), el("p", { class: "note" }, "Sending…")];
    const now = trouble && button("Try now", () => this.#hooks.retry(id));
    const note = trouble ? `Not sent yet, trying again: ${trouble}. ` : "Not sent yet: it follows the one before.";
    return [top, body(text), el("p", { class: "note waits" }, `↻ ${note}`, now)];
  }

  get #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_PX;
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#seen();
  }

  #seen() {
    this.#unseen = 0;
    this.jump.hidden = true;
  }

  #tellOf(count) {
    this.#unseen += count;
    fill(this.jump, `${plural(this.#unseen, "new message")} ↓`);
    this.jump.hidden = false;
  }
}

function messageNode({ sender, text, timestamp, receivedAt, editedAt }) {
  const edited = editedAt && el("span", { class: "hint", title: exactly(editedAt) }, "edited");
  const when = Number.isFinite(Date.parse(timestamp)) ? timestamp : receivedAt;
  return el("article", { class: "said message" }, head(sender, when, edited), body(text));
}

function replyNode({ text, at, isCertain }) {
  const maybe = !isCertain && el("span", { title: MAYBE }, chip("waits", "⚠", "maybe delivered"));
  return el("article", { class: "said reply" }, head("Agent", at, maybe), body(text));
}

function head(who, when, extra = null) {
  const moment = Date.parse(when);
  const isToday = new Date(moment).toDateString() === new Date().toDateString();
  const told = Number.isFinite(moment) ? (isToday ? sameDay : otherDay).format(moment) : "";
  return el(
    "p",
    { class: "who" },
    el("strong", {}, who),
    " ",
    el("time", { datetime: when, title: exactly(when) }, told),
    " ",
    extra,
  );
}

function body(text) {
  return el("p", { class: "text" }, text);
}
