"""Graph diagram: the neighbourhood of an entity for Graphviz and Mermaid."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.client import Onceward
from onceward.errors import EntityMissing, InvalidArgument
from onceward.memory import Entity, Graph, Link, NewEntity, Validation, WriteBatch
from onceward.memory.graph_diagram import Diagram, dot, mermaid, neighbourhood
from onceward.memory.models import EntityId
from onceward.system.redaction import Redactor


@pytest.fixture
def graph(ow: Onceward) -> Graph:
    """A chain a → b → c → d → e, and thirty leaves around a hub that knows c."""
    made = Graph(ow.store, redactor=Redactor(), validation=Validation.LENIENT)
    leaves = [f"leaf {number}" for number in range(30)]
    names = [*"abcde", "hub", *leaves]
    pairs = ["ab", "bc", "cd", "de", ("hub", "c"), *(("hub", leaf) for leaf in leaves)]
    made.write(
        WriteBatch(
            entities=tuple(NewEntity(name=name, entity_type="Error") for name in names),
            relations=tuple(
                Link(from_name=start, to_name=end, relation_type="LEADS") for start, end in pairs
            ),
        )
    )
    return made


def names(drawing: Diagram) -> list[str]:
    return [each.name for each in drawing.nodes]


def test_depth_says_how_far_it_goes(graph: Graph) -> None:
    """What is one, two and three relations away, in either direction, the nearest first."""
    assert names(neighbourhood(graph, "c")) == ["c", "b", "d", "hub"]
    assert names(neighbourhood(graph, "a", depth=2)) == ["a", "b", "c"]
    three = neighbourhood(graph, "a", depth=3)
    assert names(three) == ["a", "b", "c", "d", "hub"]
    assert {(each.from_name, each.to_name) for each in three.edges} == {
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
        ("hub", "c"),
    }
    assert not three.is_cut


def test_a_drawing_is_bounded_and_says_so(graph: Graph) -> None:
    """Where there is more, there is no edge into nothing."""
    drawing = neighbourhood(graph, "hub", nodes_max=10)
    assert len(drawing.nodes) == 10
    assert drawing.is_cut
    assert {end for each in drawing.edges for end in (each.from_name, each.to_name)} <= set(
        names(drawing)
    )
    assert neighbourhood(graph, "hub", nodes_max=1).edges == ()


def test_odd_bounds_are_refused(graph: Graph) -> None:
    """A drawing has one to three levels, and at most two hundred nodes."""
    for depth, nodes in [(0, 5), (4, 5), (1, 0), (1, 201)]:
        with pytest.raises(InvalidArgument):
            neighbourhood(graph, "a", depth=depth, nodes_max=nodes)


def test_what_is_not_there_is_not_drawn(graph: Graph) -> None:
    """The name is said back."""
    with pytest.raises(EntityMissing, match="unknown"):
        neighbourhood(graph, "unknown")


def test_both_languages_show_nodes_and_edges(graph: Graph) -> None:
    """Labels, types and relations are there, the middle one stands out."""
    drawing = neighbourhood(graph, "a")
    assert dot(drawing).splitlines()[4:] == [
        '  n0 [label="a\\nError", shape=octagon, fillcolor="#f6c9c5", penwidth=2];',
        '  n1 [label="b\\nError", shape=octagon, fillcolor="#f6c9c5"];',
        '  n0 -> n1 [label="LEADS"];',
        "}",
    ]
    assert mermaid(drawing).splitlines() == [
        "flowchart LR",
        '  n0{{"a<br/>Error"}}',
        '  n1{{"b<br/>Error"}}',
        '  n0 -->|"LEADS"| n1',
        "  style n0 fill:#f6c9c5,color:#000,stroke-width:2px",
        "  style n1 fill:#f6c9c5,color:#000",
    ]


def drawn(name: str, kind: str) -> Diagram:
    nodes = tuple(
        Entity(
            id=EntityId(number),
            name=each,
            entity_type=kind,
            observations=(),
            source="",
            run=None,
            created_at="",
        )
        for number, each in enumerate((name, "other"))
    )
    link = Link(from_name=name, to_name="other", relation_type=kind)
    return Diagram(nodes=nodes, edges=(link,), is_cut=False)


DOT_LINES = (
    r'  n\d \[label="(?:[^"\\]|\\.)*", shape=\w+, fillcolor="#\w{6}"(?:, penwidth=2)?\];',
    r'  n0 -> n1 \[label="(?:[^"\\]|\\.)*"\];',
)
#: Letters, digits, what is harmless, and characters by their numbers.
WORD = r"(?:[^\W_]|[ .,:=/()@+…-]|#\d+;)*"
MERMAID_LINES = (
    rf'  n\d\W+"{WORD}<br/>{WORD}"\W+',
    rf'  n0 -->\|"{WORD}"\| n1',
    r"  style n\d fill:#\w{6},color:#000(?:,stroke-width:2px)?",
)


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_text_escapes_its_quotes(name: str, kind: str) -> None:
    """Whatever a name holds, it is a label and nothing else."""
    drawing = drawn(name, kind)
    if name == "other":
        return
    for line in dot(drawing).splitlines()[4:-1]:
        assert any(re.fullmatch(pattern, line) for pattern in DOT_LINES), line
    for line in mermaid(drawing).splitlines()[1:]:
        assert any(re.fullmatch(pattern, line) for pattern in MERMAID_LINES), line
