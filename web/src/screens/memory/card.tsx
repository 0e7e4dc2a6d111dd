// Card: one entity: what is known of it, from whom, since when, how it changed, and the way back.

import { useLive } from "../../core/live";
import { Ago, Copy, Empty, ErrorBox, Facts, Notice, Skeleton, State, Tabs, useTab } from "../../ui/bits";
import { RestoreButton } from "./restoring";
import { Fact } from "./fact";
import { History } from "./history";
import { Provenance } from "./provenance";
import { Relations } from "./relations";
import type { Entity } from "./models";

export function Card({ name }: { name: string }) {
  const { data, error } = useLive<Entity>(["memory"], "/api/memory/entity", { name });
  return (
    <section class="memory-card" aria-labelledby="entity-title">
      <header class="memory-bar">
        <h2 id="entity-title">{name}</h2>
        <Copy text={name} label={`the name ${name}`} />
      </header>
      {error && (error.status === 404 ? <Unknown name={name} /> : <ErrorBox error={error} />)}
      {!data && !error && <Skeleton />}
      {data && <EntityDetails entity={data} />}
    </section>
  );
}

function EntityDetails({ entity }: { entity: Entity }) {
  const tab = useTab("card", "facts");
  return (
    <>
      {entity.is_deleted && (
        <Notice kind="warn">
          <span>This entity was deleted. Nothing is lost: it can be restored as it was.</span>{" "}
          <RestoreButton name={entity.name} />
        </Notice>
      )}
      <Facts
        items={[
          ["Type", entity.entity_type],
          ["From", entity.source || "not said"],
          ["In run", entity.run ?? "none"],
          ["Since", <Ago at={entity.created_at} />],
          ...(entity.is_deleted ? [["State", <State kind="off" word="deleted" />] as [string, preact.JSX.Element]] : []),
        ]}
      />
      <Tabs
        label="About this entity"
        param="card"
        tabs={[
          { id: "facts", title: "Facts", count: entity.observations.length },
          { id: "relations", title: "Relations", count: entity.relations.length },
          { id: "history", title: "History", count: entity.history.length },
          { id: "provenance", title: "Provenance" },
        ]}
      />
      {tab === "facts" && <FactList entity={entity} />}
      {tab === "relations" && <Relations entity={entity} />}
      {tab === "history" && <History entity={entity} />}
      {tab === "provenance" && <Provenance name={entity.name} isDeleted={entity.is_deleted} />}
    </>
  );
}

function FactList({ entity }: { entity: Entity }) {
  if (entity.observations.length === 0) return <p class="hint">Nothing is said about it.</p>;
  return (
    <ol class="memory-facts" aria-label="Facts, the newest first">
      {entity.observations.map((each) => <Fact key={each.id} fact={each} />)}
      {entity.is_cut && <li class="hint">There are more; the newest are shown.</li>}
    </ol>
  );
}

function Unknown({ name }: { name: string }) {
  return <Empty title="There is no such entity" text={`Nothing was ever remembered under the name “${name}”. Names are exact; the search on this page takes parts of them.`} />;
}
