// Token: asks the person for the token of a server that does not hand it out, one that other machines can
// reach.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { tokenWanted } from "../core/api";
import { Dialog } from "./dialog";
import { Field } from "./field";

export function Token(): JSX.Element | null {
  const [text, setText] = useState("");
  const question = tokenWanted.value;
  if (!question) return null;
  const give = (): void => {
    if (!text.trim()) return;
    question.give(text.trim());
    setText("");
  };
  return (
    <Dialog
      title="This server asks for its token"
      onClose={() => question.give(null)}
      actions={
        <>
          <button type="button" onClick={() => question.give(null)}>Cancel</button>
          <button type="button" class="main" onClick={give}>Use this token</button>
        </>
      }
    >
      <form onSubmit={(event) => { event.preventDefault(); give(); }}>
        <Field label="Token" hint="Run onceward token show as the user who runs the server, or copy it from the server's terminal. Each tab asks again after the server is restarted.">
          <input type="password" autoComplete="off" required autoFocus value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </Field>
      </form>
    </Dialog>
  );
}
