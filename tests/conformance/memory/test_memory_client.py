"""Memory client: JSON shapes, one layer of retries, one log line; sync and async."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import EntityMissing, InvalidArgument, StoreBusy, StoreUnavailable
from onceward.memory import AsyncMemory, Memory
from onceward.memory.memory_calls import KEY_CHARACTERS_MAX
from onceward.retries import retrying
from onceward.system import ManualClock
from onceward.system.logs import JsonLogFormatter
from tests.support.lost_commit_answers import unreliable

ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea", "speaks Greek"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
KNOWS = {"from": "Ann", "to": "Bob", "relationType": "knows"}


class Unlucky:
    """Always the longest wait, so that waits can be counted."""

    def fraction(self) -> float:
        return 1.0

    def hex(self, digits: int) -> str:
        return "0" * digits


@pytest.fixture
def memory(ow: Onceward, clock: ManualClock) -> Memory:
    return Memory(ow, clock=clock, randomness=Unlucky(), source="test", run="run#1")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """Return what was logged so far, as it is written, and forget it."""
    caplog.set_level(logging.DEBUG, "onceward.memory")

    def taken() -> list[dict[str, Any]]:
        records = [each for each in caplog.records if each.name == "onceward.memory"]
        caplog.clear()
        return [orjson.loads(JsonLogFormatter().format(each)) for each in records]

    return taken


def failing(
    monkeypatch: pytest.MonkeyPatch, target: object, method: str, *errors: Exception
) -> list[str]:
    """Let a method fail in these ways first; returns a list that grows with each call."""
    real, waiting, calls = getattr(target, method), list(errors), []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(method)
        if waiting:
            raise waiting.pop(0)
        return real(*args, **kwargs)

    monkeypatch.setattr(target, method, call)
    return calls


# --- shapes --------------------------------------------------------------------------------------


def test_the_nine_verbs_answer_in_the_shapes_that_clients_know(memory: Memory) -> None:
    """Entities, relations and observations that are new, success, and graphs."""
    assert memory.create_entities([ANN, BOB]) == {"entities": [ANN, BOB], "known": []}
    assert memory.create_relations([KNOWS]) == {"relations": [KNOWS]}
    assert memory.create_relations([KNOWS]) == {"relations": []}
    added = memory.add_observations([{"entityName": "Bob", "contents": ["is tall", "is tall"]}])
    assert added == {"results": [{"entityName": "Bob", "addedObservations": ["is tall"]}]}
    bob = {**BOB, "observations": ["is tall"]}
    whole = {"entities": [ANN, bob], "relations": [KNOWS]}
    assert memory.read_graph() == whole
    assert memory.open_nodes(["Bob", "Ann", "unknown"]) == whole
    assert memory.open_nodes(["Bob"]) == {"entities": [bob], "relations": [KNOWS]}
    assert memory.search_nodes("greek") == {"entities": [ANN], "relations": [KNOWS]}
    assert memory.search_nodes("nothing like it") == {"entities": [], "relations": []}
    deleted = memory.delete_observations([{"entityName": "Bob", "observations": ["is tall"]}])
    assert deleted["success"] is True
    assert deleted["message"] == "deleted: 1 observation"
    assert memory.delete_relations([KNOWS])["message"] == "deleted: 1 relation"
    assert memory.delete_entities(["Ann", "unknown"])["observations"] == 2
    assert memory.delete_entities(["Ann"])["message"] == "nothing to be deleted"
    assert memory.read_graph() == {"entities": [BOB], "relations": []}


def test_each_group_of_observations_has_its_own_answer(memory: Memory) -> None:
    """In the order in which they were sent; what two groups bring is reported by the first."""
    memory.create_entities([{"name": n, "entityType": "t", "observations": ["1"]} for n in "ab"])
    groups = [("b", []), ("a", ["3", "1", "3"]), ("b", ["x", "ghp_abcdefghijklmnop0123"]),
              ("a", ["4", "3"])]  # fmt: skip
    answer = memory.add_observations([{"entityName": n, "contents": c} for n, c in groups])
    assert [(each["entityName"], each["addedObservations"]) for each in answer["results"]] == [
        ("b", []),
        ("a", ["3"]),
        ("b", ["x", "[redacted]"]),
        ("a", ["4"]),
    ]


def test_pages_carry_the_cursor_of_the_next_one(memory: Memory) -> None:
    """The last page has none."""
    memory.create_entities([{"name": f"n{number}", "entityType": "t"} for number in range(5)])
    for ask in (memory.read_graph, lambda **page: memory.search_nodes("n", **page)):
        names, cursor = [], None
        while True:
            page = ask(limit=2, cursor=cursor)
            names += [each["name"] for each in page["entities"]]
            assert "isCut" not in page
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert sorted(names) == [f"n{number}" for number in range(5)]


def test_the_spellings_of_the_policy_are_taken_as_well(memory: Memory) -> None:
    """`type`, `observation`, `source` and `target` say the same."""
    memory.create_entities([{"name": "a", "type": "t"}, {"name": "b", "type": "t"}])
    memory.add_observations([{"entityName": "a", "observation": "seen"}])
    memory.create_relations([{"source": "a", "target": "b", "relationType": "r"}])
    assert memory.read_graph() == {
        "entities": [
            {"name": "a", "entityType": "t", "observations": ["seen"]},
            {"name": "b", "entityType": "t", "observations": []},
        ],
        "relations": [{"from": "a", "to": "b", "relationType": "r"}],
    }


def test_what_is_restored_is_new_again(memory: Memory) -> None:
    """An entity that was deleted comes with what is said of it now; `restore` brings back all."""
    memory.create_entities([ANN])
    memory.delete_entities(["Ann"])
    again = memory.create_entities([{**ANN, "observations": ["likes tea"]}])
    assert again["entities"] == [{**ANN, "observations": ["likes tea"]}]
    memory.delete_entities(["Ann"])
    restored = memory.restore(name="Ann")
    assert restored["message"] == "restored: 1 entity, 1 observation"
    answered = memory.restore(name="Ann")
    assert answered["success"] is True
    changes = memory.history("Ann")["changes"]
    assert [each["action"] for each in changes].count("deleted") == 2
    assert {each["source"] for each in changes} == {"test"}
    first = min(each["id"] for each in changes if each["action"] == "deleted")
    assert answered["message"] == (
        f"nothing to be restored: it exists; to restore earlier parts, restore change {first}"
    )
    assert answered["changes"] == [first]
    assert memory.restore(change=first)["observations"] == 1
    assert memory.restore(name="Ann")["message"] == "nothing to be restored"
    assert memory.open_nodes(["Ann"])["entities"] == [ANN]


def test_a_day_of_an_agent_can_be_recorded_recalled_and_explained(memory: Memory) -> None:
    """Records say what is new; what worked is recalled; every fact says where it came from."""
    facts: dict[str, Any] = {"started_at": "2026-02-06T12:00:00Z", "cmd": "pytest -q"}
    run = memory.record_run(
        **facts, exit_code=1, summary="red", success=False, duration_ms=9, mode="coder@1"
    )
    assert (run["entity"], run["observation"]) == ("created", "created")
    assert run["relations"] == [
        {"from": run["name"], "to": "mode#coder@1", "relationType": "PERFORMED_BY",
         "status": "created", "reason": ""}
    ]  # fmt: skip
    command = memory.record_command("pytest -q", exit_code=1, run=run["name"])
    error = memory.record_error(
        "KeyError: 'port'", kind="KeyError", detector="pytest", command=command["name"]
    )
    fix = memory.record_fix(error["name"], strategy="give it a default", changes=["config.py"])
    outcome = memory.record_outcome(
        fix["name"],
        status="verified_successful",
        verification_method="pytest",
        duration_to_verify=5,
    )
    doc = memory.record_doc("https://docs.example.org/config", title="Configuration")
    for each in (run, command, error, fix, outcome, doc):
        assert not [link for link in each["relations"] if link["status"] == "refused"], each
    again = memory.record_fix(error["name"], strategy="give it a default", changes=["config.py"])
    assert (again["entity"], again["observation"]) == ("known", "known")
    recalled = memory.recall("KeyError: 'port'")
    assert "give it a default" in recalled["text"]
    explained = memory.explain(error["name"])
    assert explained["name"] == error["name"]


# --- retries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StoreBusy, StoreUnavailable])
def test_what_may_pass_is_tried_three_times(
    memory: Memory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Twice it fails, the third time it is there; the waits are a quarter and half a second."""
    calls = failing(monkeypatch, memory.graph, "write", error(), error())
    assert memory.create_entities([ANN])["entities"] == [ANN]
    assert len(calls) == 3
    assert clock.monotonic() == pytest.approx(0.25 + 0.5)


def test_the_third_failure_is_the_caller_s(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and writes alike."""
    calls = failing(monkeypatch, memory.graph, "search", *[StoreBusy() for _ in range(9)])
    with pytest.raises(StoreBusy):
        memory.search_nodes("x")
    assert len(calls) == 3


def test_what_is_wrong_is_tried_once(memory: Memory, clock: ManualClock) -> None:
    """No repetition makes a wrong argument right."""
    cases: list[Any] = [
        lambda memory: memory.create_entities([{"name": "", "entityType": "t"}]),
        lambda memory: memory.create_entities("Ann"),
        lambda memory: memory.add_observations([{"entityName": "unknown", "contents": ["x"]}]),
        lambda memory: memory.create_relations([KNOWS]),
        lambda memory: memory.read_graph(limit=0),
        lambda memory: memory.read_graph(cursor=5),
        lambda memory: memory.search_nodes(5),
        lambda memory: memory.search_nodes("x", cursor=5),
        lambda memory: memory.recall(5),
        lambda memory: memory.explain(5),
        lambda memory: memory.history(5),
        lambda memory: memory.restore(name=5),
        lambda memory: memory.restore(change="5"),
    ]
    for call in cases:
        with pytest.raises((InvalidArgument, EntityMissing)):
            call(memory)
        assert clock.monotonic() == 0


def test_there_is_one_layer_of_retries(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside an outer retry, or in the caller's transaction, a call is tried once."""
    calls = failing(monkeypatch, memory.graph, "write", *[StoreBusy() for _ in range(4)])
    outer = retrying(clock=ManualClock(), randomness=Unlucky())(memory.create_entities)
    with pytest.raises(StoreBusy):
        outer([ANN])
    assert len(calls) == 3
    with pytest.raises(StoreBusy), memory.graph.store.transaction():
        memory.create_entities([ANN])
    assert len(calls) == 4
    memory.create_entities([ANN])


@pytest.mark.parametrize("kept", [True, False])
def test_a_call_whose_outcome_is_unknown_is_repeated(
    ow_url: str, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Whether the lost commit happened or not: afterwards everything is there, once."""
    with unreliable(ow_url, monkeypatch) as (url, lose), open_handle(url) as ow:
        memory = Memory(ow, clock=ManualClock())
        writes: list[Callable[[], object]] = [
            lambda: memory.create_entities([ANN, BOB]),
            lambda: memory.create_relations([KNOWS]),
            lambda: memory.add_observations([{"entityName": "Bob", "contents": ["is tall"]}]),
            lambda: memory.delete_entities(["Bob"]),
            lambda: memory.restore(name="Bob"),
            lambda: memory.record_command("pytest -q", exit_code=0),
        ]
        for write in writes:
            lose(kept)
            write()
        found = memory.read_graph()
        assert found["entities"][:2] == [ANN, {**BOB, "observations": ["is tall"]}]
        assert len(found["entities"]) == 3
        assert found["relations"] == [KNOWS]
        assert memory.graph.problems() == []


# --- logs ----------------------------------------------------------------------------------------


def test_each_call_logs_one_line_without_what_was_written(
    memory: Memory, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Level, event, key, time and retries; texts are logged as a hash, long names are cut."""
    memory.create_entities([ANN, BOB])
    memory.search_nodes("greek tea")
    memory.record_error("KeyError: 'port'", kind="KeyError", detector="test")
    memory.create_entities([{"name": "n" * 500, "entityType": "t"}])
    created, searched, recorded, long = lines()
    assert created == {
        "level": "info",
        "event": "create_entities",
        "at": created["at"],
        "logger": "onceward.memory",
        "key": "Ann and 1 more",
        "durationMs": 0.0,
        "retries": 0,
    }
    assert (searched["level"], searched["event"]) == ("debug", "search_nodes")
    assert searched["key"].startswith("text#")
    assert recorded["key"] == "err#keyerror: 'port'"
    assert len(long["key"]) == KEY_CHARACTERS_MAX + 9
    for line in (created, searched, recorded, long):
        assert "tea" not in str(line)


def test_failures_are_logged_with_their_code_and_retries(
    memory: Memory,
    lines: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refusal is a warning, what did not pass is an error, and what passed is neither."""
    failing(monkeypatch, memory.graph, "write", StoreBusy(), StoreBusy())
    memory.create_entities([ANN])
    with pytest.raises(EntityMissing):
        memory.add_observations([{"entityName": "unknown", "contents": ["private"]}])
    failing(monkeypatch, memory.graph, "write", *[StoreUnavailable() for _ in range(3)])
    with pytest.raises(StoreUnavailable):
        memory.create_entities([ANN])
    passed, refused, failed = lines()
    assert (passed["level"], passed["retries"], "error" in passed) == ("info", 2, False)
    assert (refused["level"], refused["retries"], refused["error"]) == (
        "warning",
        0,
        "ENTITY_NOT_FOUND",
    )
    assert (failed["level"], failed["retries"], failed["error"]) == ("error", 2, "UNAVAILABLE")
    assert passed["durationMs"] == pytest.approx(750)
    assert "private" not in str(refused)


def test_h32_a_secret_in_a_name_is_not_logged(
    ow: Onceward,
    lines: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither by us nor by a formatter of our records."""
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    caplog.set_level(logging.DEBUG)
    memory = Memory(ow)
    memory.create_entities([{"name": "shop hunter2hunter2", "entityType": "t"}])
    with pytest.raises(EntityMissing):
        memory.create_relations([{"from": "hunter2hunter2", "to": "b", "relationType": "r"}])
    assert "hunter2" not in str([vars(each) for each in caplog.records])
    assert [each["key"] for each in lines()] == ["shop [redacted]", "[redacted]"]


# --- opening, closing, awaiting ------------------------------------------------------------------


@pytest.fixture
def url(ow_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ONCEWARD_STORE", ow_url)
    return ow_url


def test_a_memory_of_its_own_is_opened_and_closed(url: str) -> None:
    """By address, or where the environment says."""
    with Memory.open(url, source="one") as memory:
        memory.create_entities([ANN])
    with Memory.open() as memory:
        assert memory.read_graph()["entities"] == [ANN]
        assert memory.graph.open(["Ann"]).entities[0].source == "one"


def test_everything_can_be_awaited(url: str) -> None:
    """The same verbs, the same answers, and a loop that does not wait."""

    async def use() -> None:
        async with await AsyncMemory.open(url) as memory:
            names = [f"n{number}" for number in range(20)]
            made = await asyncio.gather(
                *(memory.create_entities([{"name": n, "entityType": "t"}]) for n in names)
            )
            assert [each["entities"][0]["name"] for each in made] == names
            found = await memory.open_nodes(["n7"])
            assert found["entities"] == [{"name": "n7", "entityType": "t", "observations": []}]
            recorded = await memory.record_command("pytest -q", exit_code=0)
            assert recorded["entity"] == "created"
            with pytest.raises(EntityMissing):
                await memory.create_relations([KNOWS])

    asyncio.run(use())


def test_every_call_of_memory_has_one_that_is_awaited() -> None:
    """The two lists of methods are one list."""
    calls = {name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_"}
    awaited = dict(inspect.getmembers(AsyncMemory, inspect.iscoroutinefunction))
    assert calls <= {*awaited}
    for name in calls - {"close"}:
        assert awaited[name].__doc__ == getattr(Memory, name).__doc__
