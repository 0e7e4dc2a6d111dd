// Away: says that the server does not answer, and that nothing is lost by it; the wait can be cut short.

import type { JSX } from "preact";
import { away } from "../core/patience";

export function Away(): JSX.Element {
  const now = away.value;
  return (
    <div id="banner" class="away" role="status" hidden={!now}>
      {now && (
        <>
          ⚠ No answer from the server: {now.reason}. What you write is kept in this tab, and sent when it is back. Trying
          again by itself. <button type="button" onClick={now.cut}>Try now</button>
        </>
      )}
    </div>
  );
}
