// Listed: what stands around every list: its error, what is new, and that it is still being read.

import type { ComponentChildren } from "preact";
import type { Paged } from "../../core/live";
import { ErrorBox, Fresh, Skeleton } from "../../ui/bits";

export function Listed<T>({ pages, children }: { pages: Paged<T>; children: ComponentChildren }) {
  const isEmpty = pages.items.length === 0;
  return (
    <>
      {pages.error !== undefined && <ErrorBox error={pages.error} />}
      <Fresh fresh={pages.fresh} showFresh={pages.showFresh} />
      {isEmpty && pages.isLoading && pages.error === undefined && <Skeleton />}
      {/* What was read before an error is still worth reading. */}
      {isEmpty ? !pages.isLoading && pages.error === undefined && children : children}
    </>
  );
}
