"""`onceward memory merge`: merge entities stored under variants of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.change_plan import NOT_APPLIED, Yes, print_change
from onceward.cli.memory_loader import open_memory
from onceward.cli.output import JsonFlag, print_json
from onceward.cli.store_option import StoreUrl
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.memory import Graph
    from onceward.memory.graph.name_merge import MergeResult

#: How many merges are searched for the one to undo.
_MERGES_MAX: Final = 1_000_000


def merge(
    undo: Annotated[
        int | None, typer.Option(help="Undo the merge with this number, instead of merging.")
    ] = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Merge entities whose names are variants of one name, such as `dep#Foo_Bar` and `dep#foo-bar`.

    Facts and relations move to the canonical name with their origin; the other entities are
    soft-deleted. Without such names nothing is merged; exit 0. The plan lists the names, and the
    latest merges with their numbers.

    --undo moves back what a merge moved. Facts that were added since stay at the canonical name.
    Undo newer merges of the same entities first: else exit 1, and nothing is undone. Exit 2 if
    there is no merge of this number; with --yes, exit 0 if it was undone already.

    Example: `onceward memory merge --yes`
    """
    with open_memory(store) as memory:
        if undo is not None and yes:
            _print_undone(memory.graph.undo_merge(undo), json_output=json_output)
        elif undo is not None:
            _print_undo_plan(memory.graph, undo, json_output=json_output)
        elif yes:
            _print_merged(memory.graph.merge_names(), json_output=json_output)
        else:
            _print_plan(memory.graph, json_output=json_output)


def _print_plan(graph: Graph, *, json_output: bool) -> None:
    from onceward.cli.memory_format import DETAIL_CHARACTERS_MAX, printable_line, time
    from onceward.memory.serialization import to_json

    found, merges = graph.name_variants(), graph.merges()
    if json_output:
        print_json({"applied": False, "names": to_json(found), "merges": to_json(merges)})
        return
    for each in found:
        name = printable_line(each.name, DETAIL_CHARACTERS_MAX)
        print(f"{name}{'' if each.exists else '  (new)'}")
        for other in each.others:
            print(f"  ← {printable_line(other, DETAIL_CHARACTERS_MAX)}")
        if each.types_lost:
            lost = ", ".join(map(printable_line, each.types_lost))
            print(f"  stays {printable_line(each.entity_type)}, not {lost}")
    for merged in merges:
        print(f"merge {merged.id}: {_count(merged.names)}, {time(merged.at)}, can be undone")
    count = sum(len(each.others) for each in found)
    print(f"would merge {_count(count)}" if found else "nothing to merge")
    if found:
        print(NOT_APPLIED)


def _print_undo_plan(graph: Graph, number: int, *, json_output: bool) -> None:
    counts = {each.id: each.names for each in graph.merges(_MERGES_MAX)}
    if number not in counts:
        message = f"undo: no merge {number} can be undone; nothing was changed"
        fix = "list the merges that can be undone: `onceward memory merge`"
        raise InvalidArgument(message, fix=fix, field="undo")
    count = counts[number]
    line = f"would undo merge {number} and restore {_count(count)}"
    print_change([line], applied=False, json_output=json_output, merge=number, names=count)


def _print_merged(done: MergeResult, *, json_output: bool) -> None:
    if json_output:
        print_json({"applied": True, "merge": done.id, "names": list(done.names)})
    elif done.id is None:
        print("nothing to merge")
    else:
        undo = f"onceward memory merge --undo {done.id} --yes"
        print(f"merged {_count(len(done.names))}; to undo: {undo}")


def _print_undone(done: MergeResult, *, json_output: bool) -> None:
    from onceward.cli.memory_format import DETAIL_CHARACTERS_MAX, printable_line

    if json_output:
        fields = {"merge": done.id, "restored": list(done.names), "kept": list(done.kept)}
        print_json({"applied": True, **fields})
        return
    print(f"undone: {_count(len(done.names))} restored" if done.names else "was undone already")
    for each in done.kept:
        name = printable_line(each, DETAIL_CHARACTERS_MAX)
        print(f"kept, because it changed after the merge: {name}")


def _count(number: int) -> str:
    return f"{number} name{'' if number == 1 else 's'}"
