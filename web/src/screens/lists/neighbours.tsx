// Neighbours: from one detail page to the next, in the order of the list one came from.

import { useEffect } from "preact/hooks";
import { useKeys } from "../../core/keys";
import { go, Link } from "../../core/router";

type List = "runs" | "outcomes" | "dead";

const shown = new Map<List, string[]>();

/** Keep the order of the rows that a list shows now. */
export function useRemembered(list: List, hrefs: string[]): void {
  const order = hrefs.join("\n");
  useEffect(() => {
    shown.set(list, order === "" ? [] : order.split("\n"));
  }, [list, order]);
}

/** Links to the previous and the next row, with `[` and `]`; nothing when the list is not known. */
export function Neighbours({ list, here, noun }: { list: List; here: string; noun: string }) {
  const hrefs = shown.get(list) ?? [];
  const place = hrefs.indexOf(here);
  const before = place > 0 ? hrefs[place - 1] : undefined;
  const after = place >= 0 ? hrefs[place + 1] : undefined;
  useKeys(
    {
      "[": { text: `previous ${noun}`, run: () => before && go(before) },
      "]": { text: `next ${noun}`, run: () => after && go(after) },
    },
    "This page",
  );
  if (before === undefined && after === undefined) return null;
  return (
    <nav class="neighbours" aria-label={`Other ${noun}s`}>
      {before !== undefined && <Link href={before} title="[">← previous</Link>}
      {after !== undefined && <Link href={after} title="]">next →</Link>}
    </nav>
  );
}
