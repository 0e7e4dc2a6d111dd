// Results: the Lab's results, kept fresh.

import { useLive } from "../../core/live";
import { Link } from "../../core/router";
import type { Results } from "../../lab/models";
import { ResultsView } from "../../lab/results";
import { Empty, ErrorBox, Skeleton } from "../../ui/bits";

export function LiveResults() {
  const { data, error } = useLive<Results>(["lab"], "/api/experiments/results");
  if (error && !data) return <ErrorBox error={error} />;
  if (!data) return <Skeleton />;
  const nothing = (
    <Empty
      title="Nothing has been decided yet"
      text="Results appear here after the first decision: who won how often, how sure that is, and how the metrics differ."
      commands={["onceward lab compare BASELINE_DIR VARIANT_DIR"]}
      action={<Link href="/experiments?tab=compare">Judge the next comparison</Link>}
    />
  );
  return <ResultsView results={data} nothing={nothing} />;
}
