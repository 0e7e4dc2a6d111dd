"""`onceward memory`: search, show, recall, explain and restore what agents know."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceward.cli.memory_capture import capture, fix
from onceward.cli.memory_files import export, import_
from onceward.cli.memory_loader import open_memory
from onceward.cli.memory_merge import merge
from onceward.cli.memory_serve import serve
from onceward.cli.output import JsonFlag, group, print_json, warn
from onceward.cli.store_option import StoreUrl
from onceward.errors import EntityMissing, InvalidArgument

if TYPE_CHECKING:
    from onceward.memory import Subgraph

app = group("Serve, capture, recall and search the agents' memory.")

_Name = Annotated[str, typer.Argument(help="Name of the entity.")]

app.command()(serve)
app.command(context_settings={"allow_interspersed_args": False})(capture)
app.command()(fix)


@app.command()
def recall(
    text: Annotated[
        str,
        typer.Argument(help="Name, error message, command, URL or words; `-` reads stdin."),
    ],
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Summarize what is known about an error, a command or an entity, and which fixes worked.

    At most 200 tokens, for a model, of what captures and agents recorded. Without a match it prints
    that nothing is recorded; exit 0.

    Example: `onceward memory recall "ModuleNotFoundError: No module named 'yaml'"`
    """
    asked = sys.stdin.read() if text == "-" else text
    with open_memory(store) as memory:
        found = memory.recall(asked)
    if json_output:
        print_json(found)
    else:
        from onceward.cli.memory_format import DETAIL_CHARACTERS_MAX, printable_line

        for line in found["text"].splitlines():
            print(printable_line(line, DETAIL_CHARACTERS_MAX))


@app.command()
def search(
    query: Annotated[
        str,
        typer.Argument(
            help='Words or "phrases", all of them in the name and type, or all in one observation; '
            "`type:Error`, `key:err#…` (a name) and `key:err#*` (the beginning of names) narrow "
            "the search."
        ),
    ],
    limit: Annotated[int, typer.Option(help="Maximum number of entities.", min=1)] = 20,
    cursor: Annotated[
        str | None,
        typer.Option(
            help="Cursor of the next page, from the previous answer. Default: first page."
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Search entities by their names, types and observations, best match first.

    A word also matches longer ones that begin with it. Prints `nothing found` where nothing
    matches; exit 0. The next page's cursor goes to stderr; with --json it is `nextCursor`.

    Example: `onceward memory search 'type:Error "no module" yaml'`
    """
    with open_memory(store) as memory:
        if json_output:
            print_json(memory.search_nodes(query, limit=limit, cursor=cursor))
        else:
            _print_found(memory.graph.search(query, limit=limit, cursor=cursor))


@app.command()
def show(name: _Name, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show an entity with the origin of each fact, and its relations; exit 1 if there is none.

    Example: `onceward memory show "err#modulenotfounderror: no module named 'yaml'"`
    """
    with open_memory(store) as memory:
        found = memory.graph.open([name])
        if not found.entities:
            raise EntityMissing([name], field="name", fix="see `onceward memory search`")
        if json_output:
            from onceward.memory.serialization import to_json

            print_json(to_json(found))
            return
    _print_entity(found)


@app.command()
def graph(
    name: _Name,
    form: Annotated[
        Literal["dot", "mermaid"],
        typer.Option("--format", help="Language of the diagram: Graphviz DOT or Mermaid."),
    ] = "mermaid",
    depth: Annotated[
        int, typer.Option(help="How many relations away from the entity, 1 to 3.")
    ] = 1,
    nodes: Annotated[int, typer.Option(help="Maximum number of entities, up to 200.")] = 50,
    store: StoreUrl = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print nodes and edges as JSON instead of a diagram.")
    ] = False,
) -> None:
    """Print an entity and its neighbourhood as a Graphviz or Mermaid diagram.

    With --json it prints nodes and edges instead. If there are more entities than --nodes, the
    nearest are kept, and a warning goes to stderr. Exit 1 if there is no such entity.

    Example: `onceward memory graph "tool#pytest" --format dot --depth 2 > pytest.dot`
    """
    from onceward.memory.graph_diagram import dot, mermaid, neighbourhood

    with open_memory(store) as memory:
        drawing = neighbourhood(memory.graph, name, depth=depth, nodes_max=nodes)
    if json_output:
        from onceward.memory.serialization import relation

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
        warn("the diagram is truncated; pass a larger --nodes")


@app.command()
def history(
    name: _Name,
    limit: Annotated[int, typer.Option(help="Maximum number of changes.", min=1)] = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List the changes of an entity, newest first, also of a deleted one.

    Facts and relations are created, deleted or restored, never edited. `onceward memory restore
    --change` takes the number of a deletion, not of a restoration. Exit 1 if there was never such
    an entity.

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

    from onceward.cli.memory_format import console, fact_text, printable_line, time

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in ("change", "when", "action", "content", "source"):
        table.add_column(title, overflow="fold", no_wrap=title in ("change", "when"))
    for each in changes["changes"]:
        number = "" if each["id"] is None else str(each["id"])
        happened = f"{each['what']} {each['action']}"
        row = (
            number,
            time(each["at"]),
            happened,
            fact_text(each["text"]),
            printable_line(each["source"]),
        )
        table.add_row(*map(Text, row))
    console().print(table)


@app.command()
def restore(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the deleted entity. Not with --change."),
    ] = None,
    change: Annotated[
        int | None,
        typer.Option(
            help="Undo only the deletion with this number, from `onceward memory history`. "
            "Not with NAME."
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Restore a deleted entity, or undo one deletion: pass NAME or --change.

    What was deleted with it is restored; what was deleted before stays deleted. A relation to
    another deleted entity waits until that one is restored, too. An entity that is not deleted
    stays as it is; exit 0. Exit 1 if there was never an entity NAME; 2 if --change is not a
    deletion.

    Example: `onceward memory restore "tool#pytest"`
    """
    if (name is None) == (change is None):
        what = "neither NAME nor --change was" if name is None else "NAME and --change were both"
        message = f"name: {what} passed; nothing was restored"
        fix_ = "pass NAME, or --change with a number from `onceward memory history NAME`"
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
    """Count the memory's items and check their consistency; exit 1 on a problem.

    It repairs nothing. It also counts names that `onceward memory merge` would merge; these are no
    problem.

    Example: `onceward memory doctor`
    """
    with open_memory(store) as memory:
        counts, problems = memory.graph.counts(), memory.graph.problems()
        spellings = sum(len(each.others) for each in memory.graph.name_variants())
        url = memory.graph.store.url
    numbers = {
        "entities": counts.entities,
        "observations": counts.observations,
        "relations": counts.relations,
        "deleted": counts.deleted,
    }
    if json_output:
        counted = {**numbers, "otherSpellings": spellings}
        print_json({"store": url, **counted, "ok": not problems, "problems": problems})
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


# --- text output ---------------------------------------------------------------------------------


def _print_found(found: Subgraph) -> None:
    from onceward.cli.memory_format import console, found_lines

    if not found.entities:
        print("nothing found")
        return
    out = console()
    for entity in found.entities:
        for line in found_lines(entity):
            out.print(line)
    if found.next_cursor is not None:
        print(f"next page: --cursor {found.next_cursor}", file=sys.stderr)


def _print_entity(found: Subgraph) -> None:
    from rich.text import Text

    from onceward.cli import memory_format as fmt

    (entity,) = found.entities
    out = fmt.console()
    out.print(fmt.heading(entity))
    out.print(Text(f"since {fmt.time(entity.created_at)}{_by(entity)}", style="dim"))
    for each in entity.observations:
        out.print()
        when = fmt.time(each.ts or each.created_at)
        kind = f"  {each.kind}" if each.kind else ""
        out.print(Text(f"{when}{kind}{_by(each)}", style="dim"))
        out.print(Text(fmt.fact_text(each.content, fmt.DETAIL_CHARACTERS_MAX)))
    if found.relations:
        out.print()
    for relation in found.relations:
        out.print(Text(fmt.relation(relation, entity.name)))
    if found.is_cut:
        warn("the output is truncated")


def _by(origin: Any) -> str:  # noqa: ANN401 - an entity or an observation
    from onceward.cli.memory_format import printable_line

    run = f" in {printable_line(origin.run)}" if origin.run else ""
    return f"  by {printable_line(origin.source)}{run}" if origin.source else run
