// History: every change of an entity, and the way back from a deletion.

import { Ago, State } from "../../ui/bits";
import { Origin } from "./fact";
import type { Change, Entity } from "./models";
import { RestoreButton } from "./restoring";

const KINDS = { created: "ok", deleted: "off", restored: "busy" } as const;
const SHOWN_CHARACTERS = 200;

export function History({ entity }: { entity: Entity }) {
  if (entity.history.length === 0) return <p class="hint">No change is recorded.</p>;
  const open = stillDeleted(entity.history);
  return (
    <ol class="memory-facts" aria-label="Changes, the newest first">
      {newestFirst(entity.history).map((each, index) => (
        <li key={`${each.id ?? ""} ${each.at} ${each.action} ${index}`} class="memory-fact">
          <p class="row">
            <State kind={KINDS[each.action]} word={`${each.what} ${each.action}`} />
            <Ago at={each.at} />
            {each.id !== null && open.has(each.id) && <RestoreButton name={entity.name} change={each.id} what={each.what} />}
          </p>
          {each.what !== "entity" && <p class="memory-text">{each.text.length > SHOWN_CHARACTERS ? `${each.text.slice(0, SHOWN_CHARACTERS)}…` : each.text}</p>}
          <Origin source={each.source} run={each.run} />
        </li>
      ))}
    </ol>
  );
}

function newestFirst(changes: Change[]): Change[] {
  return [...changes].sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : (other.id ?? 0) - (one.id ?? 0)));
}

/** The numbers of deletions that nothing has undone since, as far as the history tells. */
function stillDeleted(changes: Change[]): Set<number> {
  const latest = new Map<string, Change>();
  for (const each of newestFirst(changes)) {
    const subject = `${each.what} ${each.text}`;
    if (!latest.has(subject)) latest.set(subject, each);
  }
  return new Set([...latest.values()].filter((each) => each.action === "deleted" && each.id !== null).map((each) => each.id!));
}
