// Main: looks at the address, loads the page that belongs there, and shows what went wrong when none can be
// shown. Every page is a module with a function `show(content, parameter)`.

import { Refused } from "./api.js";
import { el, entitle, fill, notice, part } from "./dom.js";
import { problem, sentence } from "./words.js";

const PAGES = [
  [/^\/lab\/?$/, () => import("./runs.js"), "runs"],
  [/^\/lab\/results\/?$/, () => import("./results.js"), "results"],
  [/^\/lab\/review\/([^/]+)\/?$/, () => import("./review.js"), null],
  [/^\/lab\/compare\/([^/]+)\/?$/, () => import("./compare.js"), null],
];
const MISSING = "Check the address. It may also belong to the Lab of another server.";
const RELOAD = "Reload the page; if that does not help, look into the server’s log.";

async function start() {
  const content = part("content");
  // Only for those who wait: most pages are there before anybody could read this.
  const slow = setTimeout(() => fill(content, el("p", { class: "hint" }, "Loading…")), 300);
  try {
    const { load, name, parameter } = route(location.pathname);
    if (name) document.querySelector(`[data-page=${name}]`).setAttribute("aria-current", "page");
    const page = await load();
    await page.show(content, parameter);
  } catch (error) {
    showFailure(content, error);
  } finally {
    clearTimeout(slow);
  }
}

function route(path) {
  for (const [pattern, load, name] of PAGES) {
    const found = pattern.exec(path);
    if (found) return { load, name, parameter: found[1] ? decodeURIComponent(found[1]) : null };
  }
  throw new Error("There is no such page of the Lab.");
}

function showFailure(content, error) {
  const isMissing = error instanceof Refused && error.status === 404;
  entitle(isMissing ? "Not here" : "This page cannot be shown");
  fill(
    content,
    notice("problem", `${problem(error)} ${isMissing ? MISSING : sentence(error.fix ?? RELOAD)}`),
    el("p", {}, el("a", { href: "/lab" }, "Go to all runs and comparisons")),
    error instanceof Refused && el("p", { class: "hint" }, `${error.code}, ${error.status}`),
  );
}

start();
