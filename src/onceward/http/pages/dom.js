// Dom: builds elements. Every text is set as text, never parsed as HTML, because most of it comes from
// agents. Knows no application.

const SVG = "http://www.w3.org/2000/svg";
/** What the shell calls the application. */
const application = document.title;

/** Make an element: `el("p", { class: "hint", on: { click } }, "text", child)`. */
export function el(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/** Make an element of a drawing. */
export function svg(tag, props = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), props, children);
}

function dress(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listen] of Object.entries(value)) node.addEventListener(event, listen);
    } else if (name.startsWith("aria-") && typeof value === "boolean") {
      node.setAttribute(name, String(value));
    } else if (value === true) {
      node.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(...kept(children));
  return node;
}

function kept(children) {
  return children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false);
}

/** Replace what is inside an element. */
export function fill(node, ...children) {
  node.replaceChildren(...kept(children));
  return node;
}

/** Return the element of the shell with this id. */
export function part(id) {
  return document.getElementById(id);
}

let count = 0;

/** Return an id that no other element of this page has. */
export function freshId(prefix) {
  count += 1;
  return `${prefix}-${count}`;
}

/** Set the page's heading, its question, and the window's title. */
export function entitle(title, subtitle = "") {
  part("title").textContent = title;
  part("subtitle").textContent = subtitle;
  document.title = `${title} · ${application}`;
}

const TOAST_MS = 8_000;
let toast = null;

/** Tell something in passing: shown for a while, and read aloud when there is time. */
export function announce(text) {
  clearTimeout(toast);
  part("status").textContent = text;
  part("status").classList.remove("only-heard");
  toast = setTimeout(() => (part("status").textContent = ""), TOAST_MS);
}

/** Tell only those who cannot see what has just changed on the page. */
export function whisper(text) {
  clearTimeout(toast);
  part("status").textContent = text;
  part("status").classList.add("only-heard");
}

/** A button that does something here (a link is for going somewhere). */
export function button(text, click, props = {}) {
  return el("button", { type: "button", ...props, on: { click } }, text);
}

/** A button that stays pressed; `change` hears the new state. */
export function toggle(text, pressed, change, props = {}) {
  const node = button(
    text,
    () => {
      const now = node.getAttribute("aria-pressed") !== "true";
      node.setAttribute("aria-pressed", now);
      change(now);
    },
    { "aria-pressed": pressed, ...props },
  );
  return node;
}

/** A key as it is printed on a control. Screen readers hear it through aria-keyshortcuts instead. */
export function keycap(key) {
  return el("kbd", { "aria-hidden": "true" }, key);
}

/** Something that is shown when asked for, and not in the page at all before. */
export function reveal(summary, build) {
  const holder = el("div", {});
  const node = el("details", { class: "reveal" }, el("summary", {}, summary), holder);
  node.addEventListener("toggle", () => node.open && !holder.firstChild && fill(holder, build()));
  return node;
}

/** A sentence that something is missing or went wrong: an icon, what, why, what now. */
export function notice(kind, ...children) {
  const icon = { problem: "⚠", missing: "○", good: "✓", info: "ⓘ" }[kind];
  return el(
    "p",
    { class: `notice ${kind}` },
    el("span", { class: "icon", "aria-hidden": "true" }, icon),
    el("span", {}, ...children),
  );
}

/** A state: icon, word and colour, so that no one of them is needed alone. */
export function chip(kind, icon, word) {
  return el("span", { class: `chip ${kind}` }, el("span", { "aria-hidden": "true" }, icon), ` ${word}`);
}
