// Provenance: which runs an entity is known from, and the way there, relation by relation.

import type { Schemas } from "../../api/types";
import { useLive } from "../../core/live";
import { Link, withQuery } from "../../core/router";
import { Ago, ErrorBox, Skeleton } from "../../ui/bits";

type Explanation = Schemas["ProvenanceItem"];

export function Provenance({ name, isDeleted }: { name: string; isDeleted: boolean }) {
  const { data, error } = useLive<Explanation>(["memory"], isDeleted ? null : "/api/memory/explain", { name });
  if (isDeleted) return <p class="hint">The provenance of a deleted entity is not shown. Its history shows who deleted it; restore it to see its sources.</p>;
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Skeleton />;
  return (
    <div class="memory-provenance">
      <p>{sourcesOf(data)}</p>
      <h3>From which runs</h3>
      {data.runs.length === 0 ? (
        <p class="hint">No relation leads to a run, so nothing says where it was seen first.</p>
      ) : (
        <ul>{data.runs.map((run) => <li key={run}><Entity name={run} /></li>)}</ul>
      )}
      {data.chain.length > 0 && (
        <>
          <h3>How it hangs together with them</h3>
          <ol class="memory-chain">
            {data.chain.map((step) => (
              <li key={JSON.stringify([step.from, step.relation_type, step.to])}>
                <Entity name={step.from} /> <span class="memory-kind">{step.relation_type}</span> <Entity name={step.to} />
                <span class="memory-origin">from {step.source || "an unnamed source"} <Ago at={step.stored_at} /></span>
              </li>
            ))}
          </ol>
        </>
      )}
      {data.is_cut && <p class="hint">There is more; the nearest is shown.</p>}
    </div>
  );
}

function Entity({ name }: { name: string }) {
  return <Link href={withQuery({ name, also: null })}>{name}</Link>;
}

/** Who says all this, each source once with how many facts. */
function sourcesOf({ facts, source }: Explanation): string {
  if (facts.length === 0) return `The entity was written by ${source || "an unnamed source"}; no fact is known about it.`;
  const counts = new Map<string, number>();
  for (const fact of facts) counts.set(fact.source, (counts.get(fact.source) ?? 0) + 1);
  const bySource = [...counts].map(([who, count]) => `${count} from ${who || "an unnamed source"}`);
  return `${facts.length} ${facts.length === 1 ? "fact" : "facts"}: ${bySource.join(", ")}.`;
}
