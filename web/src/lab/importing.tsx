// Importing: the form that makes a directory on the server a run, with its errors beside the field.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { post } from "../core/api";
import { mayPass, said, why } from "../core/patience";
import { Fields, useField } from "./fields";

/** `roots` are the directories that the server may read; `onImported` receives the id of the run. */
export function ImportForm({ roots, onImported }: { roots: string[]; onImported: (runId: string) => Promise<void> }): JSX.Element {
  const fields = useMemo(() => new Fields(), []);
  const [path, setPath] = useState("");
  const [isBusy, setBusy] = useState(false);
  const field = useField(fields, "path", "import-hint");
  const run = async (): Promise<void> => {
    fields.clear();
    if (!path.trim()) {
      fields.show("path", "There is no path yet. Type the directory of a run.");
      return;
    }
    setBusy(true);
    try {
      const { runId } = await post<{ runId: string }>("/api/runs/import", { path: path.trim() });
      await onImported(runId);
      setPath("");
    } catch (error) {
      fields.show("path", mayPass(error) ? `No answer from the server: ${why(error)}. Try again; importing twice makes one run.` : said(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="stack import" noValidate aria-labelledby="import-title" onSubmit={(event) => { event.preventDefault(); void run(); }}>
      <h2 id="import-title">Import a run</h2>
      <label for="import-path">Directory or video on the server</label>
      <div class="row">
        <input
          id="import-path" ref={field.ref} type="text" autoComplete="off" spellcheck={false} placeholder="/path/to/a/run" value={path} {...field.props}
          onInput={(event) => setPath(event.currentTarget.value)}
        />
        <button type="submit" class="main" disabled={isBusy}>Import</button>
      </div>
      {field.problem}
      <p id="import-hint" class="hint">{allowed(roots)}</p>
    </form>
  );
}

function allowed(roots: string[]): string {
  if (!roots.length) return "This server may read no directory. Start it again with --allow-root.";
  return `Below ${roots.join(" or ")}. A file means its directory.`;
}
