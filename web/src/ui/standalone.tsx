// Standalone: what stands around the screens of a document without the console: the bar at the top, and the notice of
// a server that is away, which screens inside the console show, too.

import type { ComponentChildren, JSX } from "preact";
import { away } from "../core/patience";
import { Mark } from "./icons";

/** The way past the bar, the way to the start page, and the pages of this application. */
export function TopBar({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <a class="brand" href="/"><Mark size={26} /> Onceward</a>
        <nav aria-label={label}>{children}</nav>
      </header>
    </>
  );
}

/** A wait for a server that does not answer: why, what is kept meanwhile, and a way to try at once. */
export function Away({ kept }: { kept: string }): JSX.Element {
  const waiting = away.value;
  return (
    <div id="banner" class="away" role="status" hidden={!waiting}>
      {waiting && (
        <>
          {`⚠ No answer from the server: ${waiting.reason}. ${kept} `}
          <button type="button" onClick={waiting.cut}>Try now</button>
        </>
      )}
    </div>
  );
}
