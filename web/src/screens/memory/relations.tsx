// Relations: what an entity is related to, in which direction, and who said so.

import { Link, withQuery } from "../../core/router";
import { Sheet } from "../../ui/sheet";
import type { Column } from "../../ui/table";
import type { Entity, Relation } from "./models";

export function Relations({ entity }: { entity: Entity }) {
  const other = (each: Relation) => (each.from === entity.name ? each.to : each.from);
  const columns: Column<Relation>[] = [
    {
      key: "relation",
      title: "Relation",
      render: (each) => (each.from === entity.name ? <><span aria-hidden="true">→ </span>{each.relation_type}</> : <><span aria-hidden="true">← </span>{each.relation_type} <span class="hint">this</span></>),
    },
    { key: "other", title: "Entity", render: (each) => <Link href={withQuery({ name: other(each), also: null })}>{other(each)}</Link> },
    { key: "source", title: "From", render: (each) => each.source || "–" },
    { key: "run", title: "Run", hideNarrow: true, render: (each) => (each.run ? <code>{each.run}</code> : "–") },
  ];
  if (entity.relations.length === 0) return <p class="hint">It is related to nothing.</p>;
  return (
    <Sheet
      label={`Relations of ${entity.name}`}
      columns={columns}
      rows={entity.relations}
      rowKey={(each) => JSON.stringify([each.from, each.relation_type, each.to])}
    />
  );
}
