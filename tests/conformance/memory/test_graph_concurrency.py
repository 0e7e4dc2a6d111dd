"""Concurrent writers of one graph, on both engines: consistent results and no deadlock."""

import threading

from onceward.errors import EntityMissing
from onceward.memory.graph import Graph
from onceward.memory.models import Removal, WriteBatch, WriteStatus
from tests.support.graph_writes import create, entity, link, observe, relate, shown


def test_two_writers_of_the_same_in_another_order_both_succeed(graph: Graph) -> None:
    """The second one finds it known; neither waits for the other for ever."""
    names = [f"n{at}" for at in range(50)]
    fates: list[list[WriteStatus]] = []
    errors: list[BaseException] = []

    def run(order: list[str]) -> None:
        try:
            for _ in range(5):
                made = tuple(entity(name, "one", "two") for name in order)
                relations = tuple(link(name, "is", order[0]) for name in order)
                written = graph.write(WriteBatch(entities=made, relations=relations))
                fates.append([each.status for each in written.entities])
        except BaseException as exc:  # noqa: BLE001 - shown below
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(order,)) for order in (names, names[::-1]) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(each.count(WriteStatus.CREATED) for each in fates) == 50
    assert {tuple(texts) for texts in shown(graph.read()).values()} == {("one", "two")}


def test_a_delete_and_an_add_agree_on_what_is_there(graph: Graph) -> None:
    """Whatever the order, nothing lives on an entity that is deleted."""
    create(graph, entity("hub"), *(entity(f"n{at}") for at in range(10)))
    errors: list[BaseException] = []

    def add(seed: int) -> None:
        for at in range(20):
            try:
                observe(graph, "hub", f"{seed} said {at}")
                relate(graph, link("hub", f"r{seed}", f"n{at % 10}"))
            except EntityMissing:
                continue
            except BaseException as exc:  # noqa: BLE001 - shown below
                errors.append(exc)

    def cut() -> None:
        for _ in range(10):
            try:
                graph.remove(Removal(entities=("hub", "n3")))
                create(graph, entity("hub"), entity("n3"))
            except BaseException as exc:  # noqa: BLE001 - shown below
                errors.append(exc)

    threads = [*(threading.Thread(target=add, args=(seed,)) for seed in range(3))]
    threads += [threading.Thread(target=cut) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_read_sees_one_moment(graph: Graph) -> None:
    """An entity is never seen without the facts that come and go with it."""
    create(graph, entity("a", "x"), entity("b"))
    relate(graph, link("a", "is", "b"))
    stop = threading.Event()

    def toggle() -> None:
        while not stop.is_set():
            graph.remove(Removal(entities=("a",)))
            graph.restore(name="a")

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        for _ in range(150):
            found = graph.open(["a"])
            assert shown(found) in ({}, {"a": ["x"]})
            assert len(found.relations) == len(found.entities)
    finally:
        stop.set()
        thread.join()


def test_concurrent_restores_of_the_same_all_succeed(graph: Graph) -> None:
    """One restores it, the others find it there, and none waits for another for ever."""
    create(graph, entity("hub", "x"), *(entity(f"n{at}") for at in range(5)))
    relate(graph, *(link("hub", "has", f"n{at}") for at in range(5)))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                graph.remove(Removal(entities=("hub",)))
                graph.restore(name="hub")
        except BaseException as exc:  # noqa: BLE001 - shown below
            errors.append(exc)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    graph.restore(name="hub")
    assert len(graph.open(["hub"]).relations) == 5
