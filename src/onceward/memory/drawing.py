"""Drawing: the neighbourhood of an entity as a graph for Graphviz or Mermaid.

Owns what is shown and how text is escaped in either language. Reads, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from onceward.errors import EntityMissing, InvalidArgument
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Link, Relation

DEPTH_MAX: Final = 3
NODES_MAX: Final = 200
NODES_DEFAULT: Final = 50
EDGES_MAX: Final = 1_000
LABEL_CHARACTERS_MAX: Final = 60

#: Shape in Graphviz, brackets in Mermaid, and colour, by the type of an entity.
_LOOKS: Final = {
    "Error": ("octagon", ("{{", "}}"), "#f6c9c5"),
    "Warning": ("octagon", ("{{", "}}"), "#fbe6b0"),
    "Fix": ("box", ("(", ")"), "#cfe8cf"),
    "Command": ("box", ("[[", "]]"), "#d9e4f5"),
    "Run": ("box", ("([", "])"), "#e8e8e8"),
    "Doc": ("note", ("[/", "/]"), "#efe3f7"),
}
#: Means nothing to Mermaid inside of quotes.
_HARMLESS: Final = " .,:=/()@+-…"
_PLAIN: Final = ("ellipse", ("[", "]"), "#ffffff")


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """What is drawn: the nodes, the middle one first, and what runs between them."""

    nodes: tuple[Entity, ...]
    edges: tuple[Link, ...]
    #: Whether there is more than is shown.
    is_cut: bool


def neighbourhood(
    graph: Graph, name: str, *, depth: int = 1, nodes_max: int = NODES_DEFAULT
) -> Drawing:
    """Return an entity and what is at most so many relations away, the nearest first."""
    if not 1 <= depth <= DEPTH_MAX:
        message = f"depth: must be 1 to {DEPTH_MAX}"
        raise InvalidArgument(message, fix=f"pass a depth up to {DEPTH_MAX}", field="depth")
    if not 1 <= nodes_max <= NODES_MAX:
        message = f"nodes: must be 1 to {NODES_MAX}"
        raise InvalidArgument(message, fix=f"pass at most {NODES_MAX}", field="nodes")
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
    return Drawing(
        nodes=tuple(nodes.values()),
        edges=tuple(links)[:EDGES_MAX],
        is_cut=is_cut or len(links) > EDGES_MAX,
    )


def _ends(relations: Iterable[Relation]) -> Iterable[str]:
    # Nearest first: both ends of what was found earlier come before what was found later.
    return (end for each in relations for end in (each.from_name, each.to_name))


def dot(drawing: Drawing) -> str:
    """Return the drawing in the language of Graphviz."""
    ids = _ids(drawing)
    lines = [
        "digraph memory {",
        "  rankdir=LR;",
        '  node [style="filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    for node in drawing.nodes:
        shape, _, colour = _LOOKS.get(node.entity_type, _PLAIN)
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


def mermaid(drawing: Drawing) -> str:
    """Return the drawing in the language of Mermaid."""
    ids = _ids(drawing)
    lines = ["flowchart LR"]
    for node in drawing.nodes:
        _, (opening, closing), _ = _LOOKS.get(node.entity_type, _PLAIN)
        label = "<br/>".join(map(_mermaid_text, (_short(node.name), _short(node.entity_type))))
        lines.append(f'  {ids[node.name]}{opening}"{label}"{closing}')
    lines += [
        f'  {ids[edge.from_name]} -->|"{_mermaid_text(_short(edge.relation_type))}"|'
        f" {ids[edge.to_name]}"
        for edge in drawing.edges
    ]
    for node in drawing.nodes:
        _, _, colour = _LOOKS.get(node.entity_type, _PLAIN)
        width = ",stroke-width:2px" if node is drawing.nodes[0] else ""
        lines.append(f"  style {ids[node.name]} fill:{colour},color:#000{width}")
    return "\n".join(lines) + "\n"


def _ids(drawing: Drawing) -> dict[str, str]:
    """Return plain ids: names hold characters that neither language takes."""
    return {node.name: f"n{number}" for number, node in enumerate(drawing.nodes)}


def _short(text: str) -> str:
    """Return one line that is not too long, and nothing in it that is not seen."""
    seen = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(seen.split())
    return line if len(line) <= LABEL_CHARACTERS_MAX else line[: LABEL_CHARACTERS_MAX - 1] + "…"


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _mermaid_text(text: str) -> str:
    """Return a text in which Mermaid sees no syntax and no Markdown: by numbers, as it has them."""
    # At the beginning even `1.` and `-` would be a list.
    start = len(text) - len(text.lstrip("0123456789"))
    return "".join(
        each if each.isalnum() or (place > start and each in _HARMLESS) else f"#{ord(each)};"
        for place, each in enumerate(text)
    )
