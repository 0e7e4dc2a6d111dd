// Fields: which control belongs to which name of a request's body, and the message beside it when the
// server refuses that name. Knows no page.

import { el, freshId } from "./dom.js";
import { said } from "./words.js";

export class Fields {
  #byName = new Map();

  /** Register a control under the name that the server uses, such as `perRun[0].ratings.hook`. */
  add(name, control, place = control) {
    this.#byName.set(name, { control, place });
  }

  /** Show an error at its field, and go there. False when the page has no such field. */
  show(error) {
    const found = this.#find(error.field);
    if (!found) return false;
    this.clear();
    const id = freshId("error");
    const note = el("p", { id, class: "field-error" }, "⚠ ", said(error));
    found.place.after(note);
    found.control.setAttribute("aria-invalid", "true");
    found.described = found.control.getAttribute("aria-describedby");
    found.control.setAttribute("aria-describedby", [found.described, id].filter(Boolean).join(" "));
    for (let at = found.control.closest("details"); at; at = at.parentElement.closest("details"))
      at.open = true;
    found.control.focus();
    found.control.scrollIntoView({ block: "center" });
    this.shown = { found, note };
    return true;
  }

  /** Take the last message away. */
  clear() {
    if (!this.shown) return;
    const { found, note } = this.shown;
    note.remove();
    found.control.removeAttribute("aria-invalid");
    if (found.described) found.control.setAttribute("aria-describedby", found.described);
    else found.control.removeAttribute("aria-describedby");
    this.shown = null;
  }

  /** The server may name a part of a field (`tags[3]`): the nearest name that we have is meant. */
  #find(field) {
    for (let name = field ?? ""; ; ) {
      if (this.#byName.has(name)) return this.#byName.get(name);
      const shorter = name.replace(/(\.[^.[\]]*|\[[^\]]*\])$/, "");
      // A name that is written in no way we know gets no shorter.
      if (shorter === name) return null;
      name = shorter;
    }
  }
}
