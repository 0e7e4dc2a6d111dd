"""Graph diagram: the neighbourhood of an entity as Graphviz or Mermaid text.

Selects the nodes, and escapes text for both languages. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from onceward.errors import EntityMissing
from onceward.errors.arguments import reject_field
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Link, Relation

DEPTH_MAX: Final = 3
NODES_MAX: Final = 200
NODES_DEFAULT: Final = 50
EDGES_MAX: Final = 1_000
LABEL_CHARACTERS_MAX: Final = 60

#: Graphviz shape, Mermaid brackets and colour, by entity type.
_STYLES: Final = {
    "Error": ("octagon", ("{{", "}}"), "#f6c9c5"),
    "Warning": ("octagon", ("{{", "}}"), "#fbe6b0"),
    "Fix": ("box", ("(", ")"), "#cfe8cf"),
    "Command": ("box", ("[[", "]]"), "#d9e4f5"),
    "Run": ("box", ("([", "])"), "#e8e8e8"),
    "Doc": ("note", ("[/", "/]"), "#efe3f7"),
}
#: Characters without a meaning in a quoted Mermaid label.
_MERMAID_SAFE: Final = " .,:=/()@+-…"
_DEFAULT_STYLE: Final = ("ellipse", ("[", "]"), "#ffffff")


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagram:
    """The nodes, the centre first, and the relations between them."""

    nodes: tuple[Entity, ...]
    edges: tuple[Link, ...]
    #: Whether something was left out.
    is_cut: bool


def neighbourhood(
    graph: Graph, name: str, *, depth: int = 1, nodes_max: int = NODES_DEFAULT
) -> Diagram:
    """Return an entity and the entities within that many relations, nearest first."""
    if not 1 <= depth <= DEPTH_MAX:
        reject_field("depth", f"must be 1 to {DEPTH_MAX}, not {depth}", f"pass 1 to {DEPTH_MAX}")
    if not 1 <= nodes_max <= NODES_MAX:
        problem = f"must be 1 to {NODES_MAX}, not {nodes_max}"
        reject_field("nodes", problem, f"pass 1 to {NODES_MAX}")
    found = graph.open([name])
    if not found.entities:
        raise EntityMissing([name], field="name", fix="see `onceward memory search`")
    nodes = {each.name: each for each in found.entities}
    relations = list(found.relations)
    is_cut = found.is_cut
    for _ in range(depth):
        ends = dict.fromkeys(_ends(relations))
        wanted = [end for end in ends if end not in nodes]
        room = nodes_max - len(nodes)
        is_cut = is_cut or len(wanted) > room
        if not wanted[:room]:
            break
        layer = graph.open(wanted[:room])
        nodes |= {each.name: each for each in layer.entities}
        relations += layer.relations
        is_cut = is_cut or layer.is_cut
    links = dict.fromkeys(
        Link(from_name=each.from_name, to_name=each.to_name, relation_type=each.relation_type)
        for each in relations
        if each.from_name in nodes and each.to_name in nodes
    )
    return Diagram(
        nodes=tuple(nodes.values()),
        edges=tuple(links)[:EDGES_MAX],
        is_cut=is_cut or len(links) > EDGES_MAX,
    )


def _ends(relations: Iterable[Relation]) -> Iterable[str]:
    # Breadth first: ends of relations that were found earlier come first.
    return (end for each in relations for end in (each.from_name, each.to_name))


def dot(drawing: Diagram) -> str:
    """Return the diagram in the Graphviz language."""
    ids = _ids(drawing)
    lines = [
        "digraph memory {",
        "  rankdir=LR;",
        '  node [style="filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    for node in drawing.nodes:
        shape, _, colour = _STYLES.get(node.entity_type, _DEFAULT_STYLE)
        is_middle = node is drawing.nodes[0]
        label = "\\n".join(map(_dot_text, (_short(node.name), _short(node.entity_type))))
        bold = ", penwidth=2" if is_middle else ""
        lines.append(
            f'  {ids[node.name]} [label="{label}", shape={shape}, fillcolor="{colour}"{bold}];'
        )
    lines += [
        f"  {ids[edge.from_name]} -> {ids[edge.to_name]}"
        f' [label="{_dot_text(_short(edge.relation_type))}"];'
        for edge in drawing.edges
    ]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(drawing: Diagram) -> str:
    """Return the diagram in the Mermaid language."""
    ids = _ids(drawing)
    lines = ["flowchart LR"]
    for node in drawing.nodes:
        _, (opening, closing), _ = _STYLES.get(node.entity_type, _DEFAULT_STYLE)
        label = "<br/>".join(map(_mermaid_text, (_short(node.name), _short(node.entity_type))))
        lines.append(f'  {ids[node.name]}{opening}"{label}"{closing}')
    lines += [
        f'  {ids[edge.from_name]} -->|"{_mermaid_text(_short(edge.relation_type))}"|'
        f" {ids[edge.to_name]}"
        for edge in drawing.edges
    ]
    for node in drawing.nodes:
        _, _, colour = _STYLES.get(node.entity_type, _DEFAULT_STYLE)
        width = ",stroke-width:2px" if node is drawing.nodes[0] else ""
        lines.append(f"  style {ids[node.name]} fill:{colour},color:#000{width}")
    return "\n".join(lines) + "\n"


def _ids(drawing: Diagram) -> dict[str, str]:
    """Return plain ids, because names contain characters that neither language accepts."""
    return {node.name: f"n{number}" for number, node in enumerate(drawing.nodes)}


def _short(text: str) -> str:
    """Return the text on one line, truncated, without control characters."""
    seen = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(seen.split())
    return line if len(line) <= LABEL_CHARACTERS_MAX else line[: LABEL_CHARACTERS_MAX - 1] + "…"


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _mermaid_text(text: str) -> str:
    """Return the text with all Mermaid and Markdown syntax as character codes."""
    # At the start `1.` and `-` would begin a Markdown list.
    start = len(text) - len(text.lstrip("0123456789"))
    return "".join(
        each if each.isalnum() or (place > start and each in _MERMAID_SAFE) else f"#{ord(each)};"
        for place, each in enumerate(text)
    )
