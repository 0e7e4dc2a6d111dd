"""`onceward memory merge`: entities stored under several spellings of one name become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.memory_opening import open_memory
from onceward.cli.output import JsonFlag, print_json
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.memory import Graph
    from onceward.memory.graph.name_merge import Merged


def merge(
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply the change. Default: dry run.")
    ] = False,
    undo: Annotated[
        int | None, typer.Option(help="Undo the merge of this number, as a whole.")
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Merge entities whose names are spellings of one concept, file, dependency or text.

    Facts and relations move to the canonical name with their origin; the old entities are deleted
    softly. A dry run shows what would be merged, and the merges that can be undone.

    Example: `onceward memory merge --apply`
    """
    if apply and undo is not None:
        message = "--apply and --undo exclude each other"
        raise InvalidArgument(message, fix="leave one of them out", field="--undo")
    with open_memory(store) as memory:
        if undo is not None:
            _print_undone(memory.graph.undo_merge(undo), json_output=json_output)
        elif apply:
            _print_merged(memory.graph.merge_names(), json_output=json_output)
        else:
            _print_plan(memory.graph, json_output=json_output)


def _print_plan(graph: Graph, *, json_output: bool) -> None:
    from onceward.cli.memory_looks import LONG_CHARACTERS, time, visible
    from onceward.memory.shapes import plain

    found, merges = graph.spellings(), graph.merges()
    if json_output:
        print_json({"dryRun": True, "names": plain(found), "merges": plain(merges)})
        return
    for each in found:
        print(f"{visible(each.name, LONG_CHARACTERS)}{'' if each.is_there else '  (new)'}")
        for other in each.others:
            print(f"  ← {visible(other, LONG_CHARACTERS)}")
        if each.types_lost:
            lost = ", ".join(map(visible, each.types_lost))
            print(f"  stays {visible(each.entity_type)}, not {lost}")
    for merged in merges:
        print(f"merge {merged.id}: {_count(merged.names)}, {time(merged.at)}, can be undone")
    count = sum(len(each.others) for each in found)
    print(f"would merge {_count(count)}: pass --apply" if found else "nothing to merge")


def _print_merged(done: Merged, *, json_output: bool) -> None:
    if json_output:
        print_json({"merge": done.id, "names": list(done.names)})
    elif done.id is None:
        print("nothing to merge")
    else:
        print(f"merged {_count(len(done.names))}; to undo: onceward memory merge --undo {done.id}")


def _print_undone(done: Merged, *, json_output: bool) -> None:
    from onceward.cli.memory_looks import LONG_CHARACTERS, visible

    if json_output:
        print_json({"merge": done.id, "restored": list(done.names), "kept": list(done.kept)})
        return
    print(f"undone: {_count(len(done.names))} restored" if done.names else "it was undone before")
    for each in done.kept:
        print(f"kept, because it has changed since: {visible(each, LONG_CHARACTERS)}")


def _count(number: int) -> str:
    return f"{number} name{'' if number == 1 else 's'}"
