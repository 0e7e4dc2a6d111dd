"""`onceward memory`: what agents know: look things up, see where they are from, bring them back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.memory_capture import capture, fix
from onceward.cli.memory_files import export, import_
from onceward.cli.memory_merge import merge
from onceward.cli.memory_opening import open_memory
from onceward.cli.memory_serve import serve
from onceward.cli.output import JsonFlag, group, print_json, warn
from onceward.errors import EntityMissing, InvalidArgument

if TYPE_CHECKING:
    from onceward.memory import Subgraph

app = group("Serve, capture, recall and search the agents' memory.")

_Name = Annotated[str, typer.Argument(help="The name of an entity.")]

app.command()(serve)
app.command(context_settings={"allow_interspersed_args": False})(capture)
app.command()(fix)


@app.command()
def recall(
    text: Annotated[
        str, typer.Argument(help="A name, an error's message, a command, words; `-` reads stdin.")
    ],
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Say what is known about something: what it is, and which fixes worked.

    Example: `onceward memory recall "ModuleNotFoundError: No module named 'yaml'"`
    """
    asked = sys.stdin.read() if text == "-" else text
    with open_memory(store) as memory:
        found = memory.recall(asked)
    if json_output:
        print_json(found)
    else:
        from onceward.cli.memory_looks import LONG_CHARACTERS, visible

        for line in found["text"].splitlines():
            print(visible(line, LONG_CHARACTERS))


@app.command()
def search(
    query: Annotated[
        str, typer.Argument(help="Words, phrases in quotes, `type:Error`, `key:err#…`.")
    ],
    limit: Annotated[int, typer.Option(help="At most this many.", min=1)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where an earlier answer ended.")] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Search names and observations, the best first.

    Example: `onceward memory search 'type:Error "no module" yaml'`
    """
    with open_memory(store) as memory:
        if json_output:
            print_json(memory.search_nodes(query, limit=limit, cursor=cursor))
        else:
            _print_found(memory.graph.search(query, limit=limit, cursor=cursor))


@app.command()
def show(name: _Name, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show an entity: every fact and where it came from, and what it is related to.

    Example: `onceward memory show "err#modulenotfounderror: no module named 'yaml'"`
    """
    with open_memory(store) as memory:
        found = memory.graph.open([name])
        if not found.entities:
            raise EntityMissing([name], field="name", fix="see `onceward memory search`")
        if json_output:
            from onceward.memory.shapes import plain

            print_json(plain(found))
            return
    _print_entity(found)


@app.command()
def graph(
    name: _Name,
    form: Annotated[
        Literal["dot", "mermaid"], typer.Option("--format", help="For Graphviz, or for Mermaid.")
    ] = "mermaid",
    depth: Annotated[int, typer.Option(help="How many relations away, 1 to 3.")] = 1,
    nodes: Annotated[int, typer.Option(help="At most so many entities, up to 200.")] = 50,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Draw an entity and what is around it, as text for Graphviz or Mermaid.

    Example: `onceward memory graph "tool#pytest" --format dot --depth 2 > pytest.dot`
    """
    from onceward.memory.drawing import dot, mermaid, neighbourhood

    with open_memory(store) as memory:
        drawing = neighbourhood(memory.graph, name, depth=depth, nodes_max=nodes)
    if json_output:
        from onceward.memory.shapes import relation

        print_json(
            {
                "nodes": [{"name": e.name, "entityType": e.entity_type} for e in drawing.nodes],
                "edges": [relation(each) for each in drawing.edges],
                "isCut": drawing.is_cut,
            }
        )
        return
    print((dot if form == "dot" else mermaid)(drawing), end="")
    if drawing.is_cut:
        warn("there is more around it; pass a larger --nodes")


@app.command()
def history(
    name: _Name,
    limit: Annotated[int, typer.Option(help="The newest so many changes.", min=1)] = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Say what happened to an entity, the newest first, also when it is deleted.

    Example: `onceward memory history "tool#pytest"`
    """
    with open_memory(store) as memory:
        changes = memory.history(name, limit=limit)
    if json_output:
        print_json(changes)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from onceward.cli.memory_looks import console, fact, time, visible

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in ("change", "when", "what happened", "to", "by"):
        table.add_column(title, overflow="fold", no_wrap=title in ("change", "when"))
    for each in changes["changes"]:
        number = "" if each["id"] is None else str(each["id"])
        happened = f"{each['what']} {each['action']}"
        row = (number, time(each["at"]), happened, fact(each["text"]), visible(each["source"]))
        table.add_row(*map(Text, row))
    console().print(table)


@app.command()
def restore(
    name: Annotated[
        str | None, typer.Argument(help="The name of an entity that was deleted.")
    ] = None,
    change: Annotated[
        int | None, typer.Option(help="The number of a deletion, from the history.")
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Bring back what was deleted: an entity, or what one change took.

    Example: `onceward memory restore "tool#pytest"`
    """
    if (name is None) == (change is None):
        message = "name: say which entity, or which --change, and not both"
        fix_ = "take the number of a change from `onceward memory history`"
        raise InvalidArgument(message, fix=fix_, field="name")
    with open_memory(store) as memory:
        done = memory.restore(name=name, change=change)
    if json_output:
        print_json(done)
    else:
        print(done["message"])


app.command()(merge)
app.command("import")(import_)
app.command()(export)


@app.command()
def doctor(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Count what the memory holds and check that it holds together; exit 1 when it does not.

    Example: `onceward memory doctor`
    """
    with open_memory(store) as memory:
        counts, problems = memory.graph.counts(), memory.graph.problems()
        spellings = sum(len(each.others) for each in memory.graph.spellings())
        url = memory.graph.store.url
    numbers = {
        "entities": counts.entities,
        "observations": counts.observations,
        "relations": counts.relations,
        "deleted": counts.deleted,
    }
    if json_output:
        told = {**numbers, "otherSpellings": spellings}
        print_json({"store": url, **told, "ok": not problems, "problems": problems})
    else:
        print(f"{'store':<13} {url}")
        for title, number in numbers.items():
            print(f"{title:<13} {number:,}")
        if spellings:
            print(f"{'spellings':<13} {spellings:,} to merge: see `onceward memory merge`")
        for each in problems:
            print(f"{'problem':<13} {each}")
        print(
            "ok" if not problems else "fix: restore a backup, or export and import into a new one"
        )
    if problems:
        raise typer.Exit(1)


# --- how things look to people -------------------------------------------------------------------


def _print_found(found: Subgraph) -> None:
    from onceward.cli.memory_looks import console, found_lines

    if not found.entities:
        print("nothing found")
        return
    out = console()
    for entity in found.entities:
        for line in found_lines(entity):
            out.print(line)
    if found.next_cursor is not None:
        print(f"there is more: --cursor {found.next_cursor}", file=sys.stderr)


def _print_entity(found: Subgraph) -> None:
    from rich.text import Text

    from onceward.cli import memory_looks as looks

    (entity,) = found.entities
    out = looks.console()
    out.print(looks.heading(entity))
    out.print(Text(f"since {looks.time(entity.created_at)}{_by(entity)}", style="dim"))
    for each in entity.observations:
        out.print()
        when = looks.time(each.ts or each.created_at)
        kind = f"  {each.kind}" if each.kind else ""
        out.print(Text(f"{when}{kind}{_by(each)}", style="dim"))
        out.print(Text(looks.fact(each.content, looks.LONG_CHARACTERS)))
    if found.relations:
        out.print()
    for relation in found.relations:
        out.print(Text(looks.relation(relation, entity.name)))
    if found.is_cut:
        warn("there is more than is shown")


def _by(origin: Any) -> str:  # noqa: ANN401 - an entity or an observation
    from onceward.cli.memory_looks import visible

    run = f" in {visible(origin.run)}" if origin.run else ""
    return f"  by {visible(origin.source)}{run}" if origin.source else run
