// Importing: the form that makes a directory on the server a run, with its errors beside the field. Knows no list.

import { post } from "./api.js";
import { el } from "./dom.js";
import { Fields } from "./fields.js";
import { isPassing, why } from "./patience.js";

/** `roots` are the directories that the server may read; `done` hears the id of the run. */
export function importForm(roots, done) {
  const fields = new Fields();
  const path = el("input", {
    id: "import-path",
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "/path/to/a/run",
    "aria-describedby": "import-hint",
  });
  const submit = el("button", { class: "main" }, "Import");
  const place = el("div", { class: "row" }, path, submit);
  fields.add("path", path, place);
  const form = el(
    "form",
    { class: "stack import", novalidate: true, "aria-labelledby": "import-title" },
    el("h2", { id: "import-title" }, "Import a run"),
    el("label", { for: "import-path" }, "Directory or video on the server"),
    place,
    el("p", { id: "import-hint", class: "hint" }, allowed(roots)),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fields.clear();
    submit.disabled = true;
    try {
      await done(await imported(path.value.trim()));
      path.value = "";
    } catch (error) {
      fields.show({ field: "path", message: error.message, fix: error.fix });
    } finally {
      submit.disabled = false;
    }
  });
  return form;
}

async function imported(path) {
  if (!path) throw problem("There is no path yet", "Type the directory of a run");
  try {
    return (await post("/api/runs/import", { path })).runId;
  } catch (error) {
    if (!isPassing(error)) throw error;
    throw problem(`No answer from the server: ${why(error)}`, "Try again; importing twice makes one run");
  }
}

function problem(message, fix) {
  return Object.assign(new Error(message), { fix });
}

function allowed(roots) {
  if (!roots?.length) return "This server may read no directory. Start it again with --allow-root.";
  return `Below ${roots.join(" or ")}. A file means its directory.`;
}
