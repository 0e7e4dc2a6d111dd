// Docview: shows documents side by side: one at a time, plain, rendered in a sandbox, or as a diff, and
// scrolled together. All text is data. Knows no experiment.

import { peek } from "./api.js";
import { diffView } from "./diffview.js";
import { CHARACTERS_MAX } from "./documents.js";
import { button, el, fill, freshId, notice, toggle } from "./dom.js";

export class DocumentView {
  #documents;
  #names;
  #at = 0;
  #mode = "plain";
  #together = true;
  #pair = [0, 1];
  #drawn = 0;
  #tools = el("div", { class: "row", role: "group", "aria-label": "How to show it" });
  #stage = el("div", { class: "stage" });

  /** `names` are the letters of the sides; a single run has one name, which is not shown. */
  constructor(documents, names) {
    this.#documents = documents;
    this.#names = names;
    this.node = el(
      "section",
      { class: "documents", "aria-labelledby": "documents-title" },
      el("h2", { id: "documents-title" }, "Documents"),
      this.#tabs(),
      this.#tools,
      this.#stage,
    );
    this.#draw();
  }

  get #document() {
    return this.#documents[this.#at];
  }

  #tabs() {
    if (this.#documents.length < 2) return el("h3", {}, this.#document.title);
    const tabs = this.#documents.map((each, index) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": index === 0,
          tabindex: index === 0 ? 0 : -1,
          on: { click: () => choose(index) },
        },
        each.title,
      ),
    );
    const choose = (index) => {
      this.#at = index;
      tabs.forEach((tab, other) => {
        tab.setAttribute("aria-selected", other === index);
        tab.tabIndex = other === index ? 0 : -1;
      });
      tabs[index].focus();
      this.#draw();
    };
    const list = el("div", { role: "tablist", "aria-label": "Documents", class: "tabs" }, tabs);
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose((this.#at + step + tabs.length) % tabs.length);
    });
    return list;
  }

  #draw() {
    const { kind } = this.#document;
    const isText = kind !== "image";
    const several = this.#names.length > 1;
    if ((this.#mode === "rendered" && kind !== "markdown") || (this.#mode === "diff" && !isText))
      this.#mode = "plain";
    const mode = (name, text) => {
      const pressed = this.#mode === name;
      return toggle(
        text,
        pressed,
        (on) => {
          this.#mode = on ? name : "plain";
          this.#draw();
          this.#tools.querySelector(`[data-mode=${name}]`)?.focus();
        },
        { "data-mode": name },
      );
    };
    fill(
      this.#tools,
      kind === "markdown" && mode("rendered", "Rendered"),
      several && isText && mode("diff", "Diff"),
      several && isText && this.#mode === "diff" && this.#names.length > 2 && this.#pairChoice(),
      several &&
        isText &&
        this.#mode === "plain" &&
        toggle("Scroll together", this.#together, (on) => (this.#together = on)),
    );
    this.#drawn += 1;
    if (this.#mode === "diff") this.#drawDiff(this.#drawn);
    else this.#drawPanes();
  }

  #drawPanes() {
    const scrollers = [];
    const panes = this.#document.parts.map((part, index) => {
      const name = this.#names.length > 1 ? this.#names[index] : "";
      const body = el("div", { class: "pane-body" });
      this.#fillPane(body, part, name, scrollers);
      return el("div", { class: "pane" }, name && el("h3", { class: "letter" }, name), body);
    });
    fill(this.#stage, el("div", { class: `panes sides-${this.#names.length}` }, panes));
    this.#scrollTogether(scrollers);
  }

  #fillPane(body, part, name, scrollers) {
    const { kind, title } = this.#document;
    const label = name ? `${name}: ${title}` : title;
    if (part.problem) {
      body.append(notice("missing", part.problem));
    } else if (kind === "image") {
      const image = el("img", { src: part.src, alt: `Image, ${label}` });
      image.addEventListener("error", () =>
        fill(
          body,
          notice("problem", "The image cannot be shown: the file is damaged, gone, or not an image."),
        ),
      );
      body.append(image);
    } else if (this.#mode === "rendered") {
      this.#render(part, body, `Rendered, ${label}`);
    } else {
      const pre = el("pre", { tabindex: "0", role: "region", "aria-label": label }, "Loading…");
      scrollers.push(pre);
      body.append(pre);
      this.#load(part, body, (text) => (pre.textContent = text));
    }
  }

  /** A refusal is told here: in the frame it would be the server's own, which may name the run. */
  async #render(part, body, title) {
    const src = `${part.src}?rendered=true`;
    const status = await peek(src);
    if (status === 200) body.append(el("iframe", { sandbox: "", src, title }));
    else body.append(notice("problem", "The file cannot be rendered. ", this.#again()));
  }

  #again() {
    return button("Try again", () => this.#draw());
  }

  async #load(part, body, show) {
    try {
      const text = await part.load();
      show(text.slice(0, CHARACTERS_MAX) || "(empty)");
      if (text.length > CHARACTERS_MAX) {
        body.append(
          notice(
            "info",
            `Too long to show whole: the first ${CHARACTERS_MAX.toLocaleString("en")} characters of ${text.length.toLocaleString("en")}.`,
          ),
        );
      }
    } catch (error) {
      const says = `The file cannot be read: ${error.message}. You can rate it all the same. `;
      fill(body, notice("problem", says, this.#again()));
    }
  }

  /** What one pane shows at a third of its length, the others show too. */
  #scrollTogether(scrollers) {
    const expected = new Map();
    for (const pane of scrollers) {
      pane.addEventListener("scroll", () => {
        const ours = expected.get(pane);
        expected.delete(pane);
        if (!this.#together || (ours !== undefined && Math.abs(ours - pane.scrollTop) <= 1)) return;
        const share = pane.scrollTop / Math.max(1, pane.scrollHeight - pane.clientHeight);
        for (const other of scrollers) {
          if (other === pane) continue;
          const top = Math.round(share * (other.scrollHeight - other.clientHeight));
          if (Math.abs(other.scrollTop - top) <= 1) continue;
          expected.set(other, top);
          other.scrollTop = top;
        }
      });
    }
  }

  async #drawDiff(drawn) {
    const [left, right] = this.#pair;
    fill(this.#stage, el("p", { class: "hint" }, "Comparing…"));
    const parts = [left, right].map((index) => this.#document.parts[index]);
    const problem = parts.find((part) => part.problem)?.problem;
    let view;
    try {
      if (problem) throw new Error(problem);
      const texts = await Promise.all(parts.map((part) => part.load()));
      view = diffView(texts, [this.#names[left], this.#names[right]]);
    } catch (error) {
      view = notice("problem", `There is no diff: ${error.message}`);
    }
    // A slow file must not draw over what was asked for since.
    if (drawn === this.#drawn) fill(this.#stage, view);
  }

  #pairChoice() {
    const choice = (place, text) => {
      const id = freshId("pair");
      const options = this.#names.map((name, index) =>
        el("option", { value: index, selected: index === this.#pair[place] }, name),
      );
      const select = el("select", { id }, options);
      select.addEventListener("change", () => {
        this.#pair[place] = Number(select.value);
        this.#draw();
      });
      return el("label", { for: id }, text, select);
    };
    return [choice(0, "of "), choice(1, "and ")];
  }
}
