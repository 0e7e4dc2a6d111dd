// Main: looks at the address, and shows all conversations or one; or what went wrong when it cannot.

import { Refused } from "./api.js";
import { el, entitle, fill, notice, part } from "./dom.js";
import { problem, sentence } from "./sentences.js";

const ONE = /^\/chat\/([^/]+)\/?$/;
const RELOAD = "Reload the page; if that does not help, look into the server’s log.";
const MISSING = "Check the address. The conversation may also have been removed, or belong to another server.";

async function start() {
  const content = part("content");
  // Only for those who wait: most pages are there before anybody could read this.
  const slow = setTimeout(() => fill(content, el("p", { class: "hint" }, "Loading…")), 300);
  try {
    const found = ONE.exec(location.pathname);
    if (found) {
      const { show } = await import("./talk.js");
      await show(content, decodeURIComponent(found[1]));
    } else {
      document.querySelector("[data-page=groups]").setAttribute("aria-current", "page");
      const { show } = await import("./groups.js");
      await show(content);
    }
  } catch (error) {
    showFailure(content, error);
  } finally {
    clearTimeout(slow);
  }
}

function showFailure(content, error) {
  const isMissing = error instanceof Refused && error.status === 404;
  document.body.classList.remove("talking");
  entitle(isMissing ? "Not here" : "This page cannot be shown");
  fill(
    content,
    notice("problem", `${problem(error)} ${isMissing ? MISSING : sentence(error.fix ?? RELOAD)}`),
    el("p", {}, el("a", { href: "/chat" }, "Go to all conversations")),
    error instanceof Refused && el("p", { class: "hint" }, `${error.code}, ${error.status}`),
  );
}

start();
