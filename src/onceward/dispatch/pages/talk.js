// Talk: one conversation: its log, what goes on, and where one writes. Follows it for as long as it is open.

import { getLast, getNews, loadConfig, Refused } from "./api.js";
import { patiently } from "./away.js";
import { Composer } from "./composer.js";
import { el, entitle, fill, notice } from "./dom.js";
import { showBeside } from "./groups.js";
import { Log } from "./log.js";
import { callOf, stateOf } from "./states.js";
import { Unsent } from "./unsent.js";

const PAGE = 50;

/** Show a conversation, and go on with what this tab had not sent. */
export async function show(content, group) {
  entitle(group);
  const { groups } = await patiently(loadConfig);
  const found = groups.find((each) => each.name === group);
  const first = await patiently(() => getLast(group, PAGE));

  const going = el("p", { class: "going", role: "status" });
  const composer = new Composer(group, found ? callOf(found) : "", (name, text) => unsent.add(name, text));
  const log = new Log(`Conversation ${group}`, {
    retry: (id) => unsent.retry(id),
    takeBack: ({ id, text }) => {
      unsent.drop(id);
      log.forget(id);
      composer.takeBack(text);
    },
    earlier: () => earlier.show(),
  });
  const unsent = new Unsent(group, (message) => log.show(message));
  const earlier = new Earlier(group, log);
  const take = ({ items, state }) => {
    log.add(items);
    for (const each of items) if (each.type === "message") unsent.settle(each.id);
    showState(going, state);
  };

  document.body.classList.add("talking");
  fill(content, log.node, going, composer.node);
  take(first);
  earlier.from(first.previousCursor);
  log.ready();
  for (const each of unsent.all) log.show(each);
  unsent.send();
  // Inside the console somebody may be elsewhere, and must not be torn away.
  if (window.parent === window) {
    if (matchMedia("(hover: hover)").matches) composer.focus();
    showBeside(group);
  }
  const renew = (page) => {
    log.clear();
    earlier.from(page.previousCursor);
  };
  follow(group, first, take, renew).catch((error) => {
    const gone = error instanceof Refused && error.status === 404;
    const text = gone ? "This conversation was removed." : `This page shows no news any more: ${error.message}.`;
    fill(going, notice("problem", `${text} Reload the page to look again.`));
  });
}

/** Wait for news and take it, again and again; begin anew when the store is another one. */
async function follow(group, first, take, renew) {
  let { nextCursor, state } = first;
  for (;;) {
    await visible();
    let news;
    try {
      news = await patiently(() => getNews(group, nextCursor, state.tag));
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== "INVALID_CURSOR") throw error;
      news = await patiently(() => getLast(group, PAGE));
      renew(news);
    }
    take(news);
    ({ nextCursor, state } = news);
  }
}

/** Nobody needs news that nobody sees, and a browser has few connections to one server. */
function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

function showState(going, state) {
  const now = stateOf(state);
  const text = now ? `${now.icon} ${now.text}` : "";
  // Told anew only when it is news.
  if (going.textContent === text) return;
  going.className = `going ${now?.kind ?? ""}`;
  going.textContent = text;
}

/** What was said before the first thing that is shown. */
class Earlier {
  #group;
  #log;
  #cursor = null;
  #isLoading = false;

  constructor(group, log) {
    this.#group = group;
    this.#log = log;
  }

  from(cursor) {
    this.#cursor = cursor;
    this.#log.offerEarlier(cursor !== null);
  }

  async show() {
    if (this.#isLoading || this.#cursor === null) return;
    this.#isLoading = true;
    try {
      const page = await patiently(() => getLast(this.#group, PAGE, this.#cursor));
      this.#log.add(page.items, { isOld: true });
      this.from(page.previousCursor);
    } finally {
      this.#isLoading = false;
    }
  }
}
