"""Known weaknesses of memory servers that are fixed here: h32, h33, h35, h36 and h37."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from onceward.client import Onceward
from onceward.errors import EntityMissing
from onceward.memory import AsyncMemory, Graph, Memory
from onceward.system.redaction import Redactor
from onceward.testing.postgres import program

CREATE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from onceward.memory import Memory
with Memory.open(sys.argv[1]) as memory:
    def create(number):
        found = {"name": f"{sys.argv[2]} {number}", "entityType": "t", "observations": ["both"]}
        shared = {"name": "shared", "entityType": "t", "observations": [found["name"]]}
        return memory.create_entities([found, shared])
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(20) as pool:
        print(len(list(pool.map(create, range(20)))))
"""


# --- h33: concurrent creates ---------------------------------------------------------------------


@pytest.mark.parametrize("style", ["threads", "async"])
def test_h33_a_hundred_creates_at_once_are_all_there(ow: Onceward, style: str) -> None:
    """From one client: every entity, every observation, every relation to the common one."""
    memory = Memory(ow)
    memory.create_entities([{"name": "hub", "entityType": "t"}])
    names = [f"n{number}" for number in range(100)]

    def create(name: str) -> None:
        entity = {"name": name, "entityType": "t", "observations": [f"about {name}"]}
        hub = {"name": "hub", "entityType": "t", "observations": [name]}
        memory.create_entities([entity, hub])
        memory.create_relations([{"from": name, "to": "hub", "relationType": "at"}])

    async def create_all() -> None:
        awaited = AsyncMemory(memory)
        entities = [{"name": n, "entityType": "t", "observations": [f"about {n}"]} for n in names]
        await asyncio.gather(*(awaited.create_entities([each]) for each in entities))
        await asyncio.gather(*(asyncio.to_thread(create, name) for name in names))

    if style == "threads":
        with ThreadPoolExecutor(100) as pool:
            list(pool.map(create, names))
    else:
        asyncio.run(create_all())
    found = memory.read_graph()
    by_name = {each["name"]: each["observations"] for each in found["entities"]}
    assert sorted(by_name.pop("hub")) == sorted(names)
    assert by_name == {name: [f"about {name}"] for name in names}
    assert sorted(each["from"] for each in found["relations"]) == sorted(names)
    assert memory.graph.problems() == []


def test_h33_twenty_creates_from_each_of_two_processes_are_all_there(ow_url: str) -> None:
    """All at once, also into one entity that both create."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with Memory.open(ow_url):  # So that neither of them has to bring the schema up to date.
        commands = [[sys.executable, "-c", CREATE, ow_url, each] for each in ("one", "two")]
    both = [subprocess.Popen(command, **pipes) for command in commands]  # type: ignore[call-overload]
    for each in both:
        assert each.stdout.readline() == "ready\n"
    for each in both:
        each.stdin.write("\n")
        each.stdin.flush()
    assert [each.communicate(timeout=60)[0] for each in both] == ["20\n", "20\n"]
    names = [f"{process} {number}" for process in ("one", "two") for number in range(20)]
    with Memory.open(ow_url) as memory:
        found = {each["name"]: each["observations"] for each in memory.read_graph()["entities"]}
        assert sorted(found.pop("shared")) == sorted(names)
        assert found == {name: ["both"] for name in names}


# --- h35, h36, h37 -------------------------------------------------------------------------------


def test_h35_observations_of_a_name_that_exists_are_added(ow: Onceward) -> None:
    """And the answer says what was added, and which type the entity has kept."""
    memory = Memory(ow)
    memory.create_entities([{"name": "Ann", "entityType": "person", "observations": ["tall"]}])
    answer = memory.create_entities(
        [{"name": "Ann", "entityType": "robot", "observations": ["tall", "kind"]}]
    )
    known = {"name": "Ann", "entityType": "person", "addedObservations": ["kind"]}
    assert answer == {"entities": [], "known": [known]}
    (ann,) = memory.open_nodes(["Ann"])["entities"]
    assert ann == {"name": "Ann", "entityType": "person", "observations": ["tall", "kind"]}


def test_h36_the_same_observation_at_another_time_is_the_same(ow: Onceward) -> None:
    """Sent as text, as an object, or recorded; with its keys in any order."""
    memory = Memory(ow)
    memory.create_entities([{"name": "n", "entityType": "t"}])
    envelope = {
        "type": "error.capture",
        "ts": "2026-02-06T12:00:00Z",
        "mode": "m@1",
        "repo": "r",
        "branch": "b",
        "data": {"normalizedKey": "k", "kind": "K", "message": "m", "detector": "d"},
    }
    later: dict[str, Any] = {**envelope, "ts": "2026-02-07T12:00:00Z"}
    turned = dict(reversed(later.items()))
    contents = [json.dumps(envelope), json.dumps(later), json.dumps(turned, indent=1), later]
    for content in contents:
        memory.add_observations([{"entityName": "n", "contents": [content]}])
    other = {**later, "branch": "main"}
    memory.add_observations([{"entityName": "n", "contents": [json.dumps(other)]}])
    (found,) = memory.open_nodes(["n"])["entities"]
    assert found["observations"] == [json.dumps(envelope), json.dumps(other)]
    facts: dict[str, Any] = {"kind": "K", "detector": "d"}
    first = memory.record_error("KeyError: port", **facts, ts="2026-02-06T12:00:00Z")
    again = memory.record_error("KeyError: port", **facts, ts="2026-02-07T12:00:00Z")
    assert (first["observation"], again["observation"]) == ("created", "known")


def test_h37_a_relation_to_a_missing_entity_is_rejected_by_name(ow: Onceward) -> None:
    """With all the names that are missing, and nothing of the call is kept."""
    memory = Memory(ow)
    memory.create_entities([{"name": name, "entityType": "t"} for name in ("a", "b")])
    good = {"from": "a", "to": "b", "relationType": "r"}
    with pytest.raises(EntityMissing) as refused:
        memory.create_relations([
            good,
            {"from": "a", "to": "unknown", "relationType": "r"},
            {"from": "another unknown", "to": "b", "relationType": "r"},
        ])  # fmt: skip
    assert "unknown" in refused.value.message
    assert "another unknown" in refused.value.message
    assert refused.value.code == "ENTITY_NOT_FOUND"
    assert memory.read_graph()["relations"] == []
    memory.delete_entities(["b"])
    with pytest.raises(EntityMissing, match="b"):
        memory.create_relations([good])


# --- h32: secrets --------------------------------------------------------------------------------

VALUES = {
    "SHOP_TOKEN": "t0ken/with+signs=",
    "LONG_SECRET": 'two words "quoted" \\ and more',
    "OTHER_PASSWORD": "grünschäbel-2026",
    "A_KEY": "94870163925",
}
FORMS = [
    "ghp_abcdefghijklmnop0123456789",
    "AKIAABCDEFGHIJKLMNOP",
    "sk-abcdefghijklmnop0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]
BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
NAMED = ["DB_PASSWORD=hunter2hunter2", "postgresql://me:hunter2hunter2@host/db"]


def tell_everything(memory: Memory, secret: str) -> None:
    """Let a secret stand wherever a client can put a text."""
    name = f"name {secret}"
    # A known value is found in any spelling, what only looks like one as people write it.
    address = f"https://host/{'x' if secret in (BLOCK, *NAMED) else quote(secret, safe='')}"
    memory.create_entities(
        [
            {"name": name, "entityType": f"type {secret}", "observations": [f"saw {secret}."]},
            {"name": "plain", "entityType": "t", "observations": [json.dumps({"x": secret})]},
        ]
    )
    note = {"type": "doc.note", "ts": secret, "mode": secret, "repo": secret, "branch": secret}
    data = {"url": address, "title": secret, "deep": [{secret: secret}]}
    contents = [json.dumps({**note, "data": data}), {**note, "data": data}, secret]
    memory.add_observations([{"entityName": name, "contents": contents}])
    memory.create_relations([{"from": name, "to": "plain", "relationType": f"r {secret}"}])
    memory.search_nodes(secret)
    memory.recall(secret)
    facts: dict[str, Any] = {"stdout_head": secret, "stderr_head": f"key {secret}"}
    facts["cwd"] = f"/home/{secret}"
    run = memory.record_run(
        started_at="2026-02-06T12:00:00Z", cmd=f"curl {secret}", exit_code=1, summary=secret,
        success=False, duration_ms=1, tools=[f"tool {secret}"], files=[f"/x/{secret}"],
        mode=f"m {secret}", key_events=[secret, {secret: secret}], **facts,
    )  # fmt: skip
    command = memory.record_command(f"curl -H {secret} url", exit_code=1, run=run["name"], **facts)
    error = memory.record_error(
        f"refused: {secret}", kind=secret, detector=secret, context={secret: secret},
        command=command["name"], concepts=[f"about {secret}"], dependency=f"lib {secret}",
    )  # fmt: skip
    fix = memory.record_fix(error["name"], strategy=f"use {secret}", changes=[secret])
    memory.record_outcome(
        fix["name"], status="failed", verification_method=secret, duration_to_verify=1,
        side_effects=[secret],
    )  # fmt: skip
    memory.record_doc(address, title=secret, excerpt=secret)
    memory.delete_observations([{"entityName": name, "observations": [f"saw {secret}."]}])
    memory.delete_entities([name])
    memory.restore(name=name)


def everything_stored(ow: Onceward, url: str) -> str:
    """Return all that the database holds, as text."""
    if ow.store.engine == "sqlite":
        place = Path(url.removeprefix("sqlite:///"))
        files = [place, *place.parent.glob(f"{place.name}-*")]
        return "".join(each.read_bytes().decode(errors="replace") for each in files)
    dumped = subprocess.run([program("pg_dump"), url], capture_output=True, text=True, check=True)
    return dumped.stdout


def test_h32_no_secret_reaches_the_memory(
    ow: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of the environment and well-known forms, in any place of any call, in any spelling."""
    for variable, value in VALUES.items():
        monkeypatch.setenv(variable, value)
    memory = Memory(
        ow, source=f"source {VALUES['SHOP_TOKEN']}", run=f"run {VALUES['SHOP_TOKEN']}",
        mode=VALUES["SHOP_TOKEN"], repo=VALUES["LONG_SECRET"], branch=VALUES["A_KEY"],
        validation="lenient",
    )  # fmt: skip
    for secret in [*VALUES.values(), *FORMS, BLOCK, *NAMED]:
        tell_everything(memory, secret)
    (reported,) = memory.graph.open(["name [redacted]"]).entities
    assert "doc.note" in [each.kind for each in reported.observations]  # It is an envelope still.
    stored = everything_stored(ow, ow_url).lower()
    assert "[redacted]" in stored
    needles = [*VALUES.values(), *FORMS, "hunter2hunter2", "MIIEowIBAAKCAQEA"]
    needles += ["two words", "quoted", "signs", "grünsch", "grunsch", quote("grünsch")]
    for needle in needles:
        for form in {needle, json.dumps(needle)[1:-1], quote(needle, safe="")}:
            assert form.lower() not in stored, form
    blind = Graph(ow.store, redactor=Redactor())  # Searches for what it is asked for.
    for word in ("hunter2hunter2", "MIIEowIBAAKCAQEA", "94870163925", "ghp"):
        assert blind.search(word).entities == ()
