// Neighbours: what the selection is related to, drawn or as a list. One or two steps away, and further only
// on request; never the whole graph.

import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../../core/keys";
import { useLive } from "../../core/live";
import { get } from "../../core/api";
import { plural } from "../../core/format";
import { Link, route, setQuery, withQuery } from "../../core/router";
import { ErrorBox, Notice, Skeleton } from "../../ui/bits";
import { Graph, Legend } from "../../ui/graph";
import { Sheet } from "../../ui/sheet";
import type { Column } from "../../ui/table";
import { Rail } from "../lists/rail";
import { openEntity } from "./finder";
import { markOf, toneOf } from "./kinds";
import type { Neighbourhood } from "./models";

/** Entities around one; more could not be distinguished. */
const LIMIT = 80;
/** Expanded entities that an address holds. */
const ALSO_MAX = 6;

type Node = Neighbourhood["nodes"][number];

export function Neighbours({ name }: { name: string }) {
  const { query } = route.value;
  const hops = query.get("hops") === "2" ? 2 : 1;
  const isList = query.get("view") === "list";
  const also = namesIn(query.get("also"));
  const live = useLive<Neighbourhood>(["memory"], "/api/memory/neighbourhood", { name, hops, limit: LIMIT });
  const whole = useExpanded(live.data, also);
  // The drawing before stays until the next one is there, so that nothing flickers and the focus is kept.
  const last = useRef<{ name: string; graph: Neighbourhood } | null>(null);
  if (whole) last.current = { name, graph: whole };
  const shown = last.current;
  const [focused, setFocused] = useState(name);
  useEffect(() => setFocused(name), [name]);

  const expand = (which: string) => {
    if (which !== name && !also.includes(which)) setQuery({ also: JSON.stringify([...also, which].slice(-ALSO_MAX)) });
  };
  useKeys({ e: { text: "Also show what the entity in focus is related to", run: () => expand(focused) } }, "Memory");

  return (
    <section class="memory-middle" aria-labelledby="neighbours-title">
      <header class="memory-bar">
        <h2 id="neighbours-title">Neighbourhood</h2>
        <Rail label="How far" param="hops" choices={[{ value: null, title: "1 step" }, { value: "2", title: "2 steps" }]} />
        <Rail label="Shown as" param="view" choices={[{ value: null, title: "Graph" }, { value: "list", title: "List" }]} />
      </header>
      {live.error && live.error.status !== 404 && <ErrorBox error={live.error} />}
      {!shown && !live.error && <Skeleton />}
      {shown && !live.error && <GraphView shown={shown} isList={isList} focused={focused} setFocused={setFocused} expand={expand} also={also} />}
      {live.error?.status === 404 && <p class="hint">There is nothing around it: it was deleted, or never was.</p>}
    </section>
  );
}

interface GraphViewProps {
  shown: { name: string; graph: Neighbourhood };
  isList: boolean;
  focused: string;
  setFocused: (name: string) => void;
  expand: (name: string) => void;
  also: string[];
}

function GraphView({ shown: { name, graph }, isList, focused, setFocused, expand, also }: GraphViewProps) {
  const nodes = middleFirst(graph.nodes, name);
  const summary = summed(graph, name);
  const active = nodes.find((node) => node.name === focused) ?? nodes[0];
  return (
    <>
      <p class="hint" id="neighbours-summary">{summary}</p>
      {graph.is_cut && <Notice kind="info">There are more; the nearest {graph.nodes.length} are shown. Open one of them to see what is around it.</Notice>}
      {isList ? (
        <NodeList nodes={nodes} graph={graph} expand={expand} also={also} name={name} />
      ) : nodes.length > 1 && (
        <>
          <Graph
            label={`What ${name} is related to`}
            nodes={nodes.map((node) => ({ ...markFor(node.entity_type), id: node.name, hops: node.hops, name: nameOf(node, graph) }))}
            edges={graph.edges.map((edge) => ({ from: edge.from, to: edge.to, label: edge.relation_type }))}
            focused={focused}
            onFocus={setFocused}
            onOpen={openEntity}
          />
          {active && (
            <div class="memory-active">
              <p><strong>{active.name}</strong> <span class="memory-type">{active.entity_type}</span></p>
              <p class="row">
                {active.name !== name && <button type="button" onClick={() => openEntity(active.name)}>Open</button>}
                {active.name !== name && !also.includes(active.name) && (
                  <button type="button" aria-keyshortcuts="e" onClick={() => expand(active.name)}>Show what is around it <kbd aria-hidden="true">e</kbd></button>
                )}
                {also.length > 0 && <button type="button" onClick={() => setQuery({ also: null })}>Only the neighbourhood of the selection</button>}
              </p>
              <p class="hint">Arrows walk, Enter opens.</p>
            </div>
          )}
          <Legend label="Types" marks={graph.nodes.map((node) => ({ ...markFor(node.entity_type), title: node.entity_type }))} />
        </>
      )}
    </>
  );
}

function NodeList({ nodes, graph, expand, also, name }: { nodes: Node[]; graph: Neighbourhood; expand: (name: string) => void; also: string[]; name: string }) {
  const columns: Column<Node>[] = [
    { key: "name", title: "Entity", render: (node) => (node.name === name ? <strong>{node.name}</strong> : <Link href={withQuery({ name: node.name, also: null })}>{node.name}</Link>) },
    { key: "type", title: "Type", render: (node) => node.entity_type },
    { key: "hops", title: "Steps", align: "end", render: (node) => node.hops },
    { key: "relations", title: "Relations", render: (node) => <ul class="memory-relations">{relationsOf(node.name, graph).map((text) => <li key={text}>{text}</li>)}</ul> },
    {
      key: "expand",
      title: "Expand",
      render: (node) =>
        node.name !== name && !also.includes(node.name) && (
          <button type="button" aria-label={`Show what is around ${node.name}`} onClick={() => expand(node.name)}>Expand</button>
        ),
    },
  ];
  return <Sheet label={`What ${name} is related to`} columns={columns} rows={nodes} rowKey={(node) => node.name} />;
}

/** The neighbourhood together with what is around the expanded entities. */
function useExpanded(base: Neighbourhood | undefined, also: string[]): Neighbourhood | undefined {
  const [more, setMore] = useState<Record<string, Neighbourhood>>({});
  const wanted = JSON.stringify(also);
  useEffect(() => {
    const control = new AbortController();
    for (const name of also) {
      get<Neighbourhood>("/api/memory/neighbourhood", { name, hops: 1, limit: LIMIT }, control.signal)
        .then((found) => setMore((old) => ({ ...old, [name]: found })))
        .catch(() => undefined); // What is gone meanwhile has nothing around it.
    }
    return () => control.abort();
  }, [wanted, base]);
  if (!base) return undefined;
  return also.reduce((whole, name) => (more[name] ? merged(whole, more[name]) : whole), base);
}

function merged(one: Neighbourhood, other: Neighbourhood): Neighbourhood {
  const known = new Set(one.nodes.map((node) => node.name));
  const lines = new Set(one.edges.map(lineOf));
  const from = Math.max(...one.nodes.filter((node) => other.nodes.some((each) => each.name === node.name)).map((node) => node.hops), 0);
  return {
    ...one,
    nodes: [...one.nodes, ...other.nodes.filter((node) => !known.has(node.name)).map((node) => ({ ...node, hops: from + node.hops }))],
    edges: [...one.edges, ...other.edges.filter((edge) => !lines.has(lineOf(edge)))],
    is_cut: one.is_cut || other.is_cut,
  };
}

function lineOf({ from, to, relation_type }: Neighbourhood["edges"][number]): string {
  return JSON.stringify([from, relation_type, to]);
}

function namesIn(text: string | null): string[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string").slice(0, ALSO_MAX) : [];
  } catch {
    return [];
  }
}

function middleFirst(nodes: Node[], name: string): Node[] {
  return [...nodes.filter((node) => node.name === name), ...nodes.filter((node) => node.name !== name)];
}

function summed({ nodes, edges }: Neighbourhood, name: string): string {
  const others = nodes.filter((node) => node.name !== name).length;
  if (others === 0) return "It is related to nothing.";
  return `${plural(others, "entity", "entities")} around it, ${plural(edges.length, "relation", "relations")}.`;
}

function nameOf(node: Node, graph: Neighbourhood): string {
  const relations = relationsOf(node.name, graph);
  const some = relations.slice(0, 3).join("; ");
  const rest = relations.length > 3 ? `; and ${relations.length - 3} more` : "";
  return `${node.entity_type} ${node.name}${some && `: ${some}${rest}`}`;
}

function relationsOf(name: string, { edges }: Neighbourhood): string[] {
  const relations = edges.flatMap((edge) =>
    edge.from === name ? [`${edge.relation_type} ${edge.to}`] : edge.to === name ? [`${edge.from} ${edge.relation_type} it`] : [],
  );
  return [...new Set(relations)];
}

function markFor(type: string): { mark: string; tone: number } {
  return { mark: markOf(type), tone: toneOf(type) };
}
