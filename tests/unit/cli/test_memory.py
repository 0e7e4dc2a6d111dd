"""`onceward memory`: look things up, draw them, bring them back, move them; and wrong words."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import onceward
from onceward.cli.memory_import_hint import offer_import
from onceward.errors import OutcomeUnknown, StoreUnavailable
from onceward.memory import Memory
from tests.support.command_runner import Run

ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea", "tall\x1b[31m"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
KNOWS = {"from": "Ann", "to": "Bob", "relationType": "knows"}
MESSAGE = "KeyError: 'price'"


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_STORE", f"sqlite:///{tmp_path / 'memory.db'}")
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def memory() -> Memory:
    """A memory with two people and an error."""
    with Memory.open(source="test") as made:
        made.create_entities([ANN, BOB])
        made.create_relations([KNOWS])
        command = made.record_command("pytest -q", exit_code=1, cwd="/srv")["name"]
        made.record_error(MESSAGE, kind="KeyError", detector="python", command=command)
    return made


@pytest.mark.usefixtures("memory")
def test_show_lists_every_fact_and_every_relation(run: Run) -> None:
    """What it is, what was observed when and by whom, and what it is related to."""
    ran = run("memory", "show", "Ann")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "Ann  person"
    assert lines[1].endswith("by test")
    assert "likes tea" in lines
    assert "tall\N{REPLACEMENT CHARACTER}[31m" in lines
    assert lines[-1] == "→ knows Bob"
    assert run("memory", "show", "Bob").out.splitlines()[-1] == "← knows Ann"
    error = run("memory", "show", "err#keyerror: 'price'").out
    assert "KeyError: 'price' (KeyError, found by python)" in error
    (entity,) = run("memory", "show", "Ann", "--json").json["entities"]
    assert entity["observations"][0]["source"] == "test"


@pytest.mark.usefixtures("memory")
def test_search_finds_names_facts_and_types(run: Run) -> None:
    """The best first, with what is known of it in a line, and the way to more."""
    assert run("memory", "search", "tea").out.splitlines()[0] == "Ann  person"
    assert BOB in run("memory", "search", "type:person", "--json").json["entities"]
    page = run("memory", "search", "type:person", "--limit", "1")
    assert len([line for line in page.out.splitlines() if "person" in line]) == 1
    cursor = page.err.removeprefix("next page: --cursor ").strip()
    rest = run("memory", "search", "type:person", "--limit", "1", "--cursor", cursor)
    assert rest.out.splitlines()[0] in ("Ann  person", "Bob  person")
    assert rest.out not in page.out
    nothing = run("memory", "search", "nowhere")
    assert (nothing.code, nothing.out) == (0, "nothing found\n")


@pytest.mark.usefixtures("memory")
def test_recall_and_fix_go_together(run: Run) -> None:
    """A fix is recorded once, and recalled from then on."""
    assert "No fix is recorded yet." in run("memory", "recall", MESSAGE).out
    words = ("memory", "fix", MESSAGE, "--strategy", "check the price", "--change", "cart.py")
    first = run(*words, "--doc", "https://example.org/x")
    assert first.out.startswith("recorded: fix#err#keyerror: 'price'#")
    assert run(*words, "--doc", "https://example.org/x").out.startswith("known already: ")
    recorded = run(*words, "--proposed", "--json").json
    assert (recorded["entity"], recorded["observation"]) == ("known", "created")
    recalled = run("memory", "recall", "-", stdin=f"noise\n{MESSAGE}\n".encode())
    assert '"check the price"' in recalled.out
    assert run("memory", "recall", "xyzzy", "--json").json["how"] == "nothing"
    shown = run("memory", "show", recorded["name"]).out
    assert "applied: check the price; cart.py" in shown


@pytest.mark.usefixtures("memory")
def test_graph_draws_in_both_languages(run: Run) -> None:
    """Text for other programs; what did not fit is said on stderr."""
    assert '-->|"knows"|' in run("memory", "graph", "Ann").out
    assert 'n0 -> n1 [label="knows"];' in run("memory", "graph", "Ann", "--format", "dot").out
    drawn = run("memory", "graph", "Ann", "--json").json
    assert drawn["edges"] == [KNOWS]
    assert [each["name"] for each in drawn["nodes"]] == ["Ann", "Bob"]
    cut = run("memory", "graph", "Ann", "--nodes", "1")
    assert cut.err == "warning: the diagram is truncated; pass a larger --nodes\n"


def test_history_and_restore_bring_back_what_was_deleted(run: Run, memory: Memory) -> None:
    """The history names the change; by that, or by its name, an entity is back with all it had."""
    del memory
    with Memory.open() as opened:
        opened.delete_observations([{"entityName": "Ann", "observations": ["likes tea"]}])
        opened.delete_entities(["Bob"])
    changes = run("memory", "history", "Bob", "--json").json["changes"]
    assert changes[0]["action"] == "deleted"
    lines = run("memory", "history", "Bob").out
    assert "entity deleted" in lines
    assert str(changes[0]["id"]) in lines
    back = run("memory", "restore", "Bob")
    assert (back.code, back.out) == (0, "restored: 1 entity, 1 relation\n")
    again = run("memory", "restore", "Bob")
    assert (again.code, again.out) == (0, "nothing to be restored\n")
    number = run("memory", "history", "Ann", "--limit", "1", "--json").json["changes"][0]["id"]
    assert run("memory", "restore", "--change", str(number), "--json").json["observations"] == 1
    assert "likes tea" in run("memory", "show", "Ann").out


def test_restore_names_the_change_of_a_recreated_entity(run: Run, memory: Memory) -> None:
    """What was created again after its deletion is there, but not with all that it had."""
    del memory
    with Memory.open() as opened:
        opened.delete_entities(["Ann"])
        opened.create_entities([{"name": "Ann", "entityType": "person"}])
    (number,) = run("memory", "restore", "Ann", "--json").json["changes"]
    ran = run("memory", "restore", "Ann")
    assert ran.out.endswith(f"it exists; to restore earlier parts, restore change {number}\n")
    assert "2 observations" in run("memory", "restore", "--change", str(number)).out
    assert run("memory", "restore", "Ann").out == "nothing to be restored\n"


@pytest.mark.usefixtures("memory")
def test_export_and_import_move_a_memory(run: Run, tmp_path: Path) -> None:
    """To a file or to stdout, into the same memory or into another one."""
    path = tmp_path / "out.jsonl"
    done = run("memory", "export", str(path))
    assert done.out == f"4 entities, 4 observations, 2 relations in {path}\n"
    piped = run("memory", "export")
    assert piped.out == path.read_text()
    assert piped.err == "4 entities, 4 observations, 2 relations\n"
    assert json.loads(run("memory", "export", "--json").err)["entities"] == 4
    known = run("memory", "import", str(path))
    assert known.out == ("0 entities, 0 observations, 0 relations added; 10 known already\n")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    counts = run("memory", "import", str(path), "--store", other, "--json").json
    assert (counts["entities"], counts["observations"], counts["relations"]) == (4, 4, 2)
    assert run("memory", "export", "--store", other).out == piped.out


@pytest.mark.usefixtures("memory")
def test_an_export_replaces_a_file_only_with_yes(run: Run, tmp_path: Path) -> None:
    """The plan has the size of what would be lost, and of what would be written."""
    path = tmp_path / "out.jsonl"
    new = {
        "applied": True, "path": str(path), "replaced": None, "entities": 4, "observations": 4,
        "relations": 2, "cut": [],
    }  # fmt: skip
    assert run("memory", "export", str(path), "--json").json == new
    exported = path.read_text()
    path.write_text("mine\nas well\n")
    planned = run("memory", "export", str(path))
    assert (planned.code, planned.out.splitlines()) == (
        0,
        [
            f"would replace {path}: 2 lines, 13 bytes",
            "would write 4 entities, 4 observations, 2 relations",
            "nothing was changed; pass --yes to apply",
        ],
    )
    replaced = {"lines": 2, "bytes": 13}
    planned_values = {key: new[key] for key in ("path", "entities", "observations", "relations")}
    assert run("memory", "export", str(path), "--json").json == {
        "applied": False, "replaced": replaced, **planned_values
    }  # fmt: skip
    assert path.read_text() == "mine\nas well\n"
    assert run("memory", "export", str(path), "--yes", "--json").json == {
        **new, "replaced": replaced
    }  # fmt: skip
    assert path.read_text() == exported
    assert run("memory", "export", str(path), "--yes").out.endswith(f"2 relations in {path}\n")


def test_import_names_what_it_left_out(run: Run, tmp_path: Path) -> None:
    """Each problem with its line, up to twenty; all of them for machines; exit 1 if all is lost."""
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join([json.dumps({"type": "entity", **ANN}), *["broken"] * 30]))
    ran = run("memory", "import", str(path))
    assert ran.code == 0
    assert ran.out.endswith("30 left out\n")
    warnings = ran.err.splitlines()
    assert warnings[0].startswith("warning: line 2: is not JSON")
    assert len(warnings) == 21
    assert warnings[-1] == "warning: … and 10 more problems"
    machine = run("memory", "import", str(path), "--json").json
    assert machine["problemCount"] == len(machine["problems"]) == 30
    assert machine["problems"][0]["line"] == 2
    path.write_text("nothing\nto see\n")
    assert run("memory", "import", str(path)).code == 1


def test_import_says_which_types_it_left_out(run: Run, memory: Memory, tmp_path: Path) -> None:
    """An entity that is there keeps its type, and an import of another type prints a warning."""
    del memory
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"type": "entity", **BOB, "entityType": "dog"}))
    ran = run("memory", "import", str(path))
    assert ran.code == 0
    assert ran.err == "warning: line 1: its type was left out: 'Bob' stays 'person'\n"


@pytest.mark.parametrize(
    ("error", "recorded"), [(OutcomeUnknown(), None), (StoreUnavailable(), False)]
)
def test_h63_captures_wait_on_disk_while_the_store_is_away(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, recorded: bool | None
) -> None:
    """The next command that reaches the store records them, in order, once."""
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise error

        # Imported while this is patched, it would keep what fails.
        import_module("onceward.memory.buffered_records")
        patch.setattr("onceward.memory.capture.command_capture.capture", fail)
        ran = run("memory", "capture", "--", "true")
        assert ran.code == 0
        assert "warning: the store is unavailable; the command is buffered on disk" in ran.err
        ran = run("memory", "capture", "--json", "--", "false")
        assert ran.code == 1
        assert (ran.json["recorded"], ran.json["buffered"]) == (recorded, True)
    found = [run("memory", "search", "type:Command", "--json").json["entities"] for _ in range(2)]
    assert found[0] == found[1]
    assert [each["name"].split("#")[1] for each in found[0]] == ["false", "true"]
    assert [len(each["observations"]) for each in found[0]] == [1, 1]


def test_capture_says_when_it_can_neither_be_recorded_nor_wait(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A directory that cannot be written leaves the plain truth."""

    def fail(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr("onceward.memory.capture.command_capture.capture", fail)
    (tmp_path / "home").write_text("no directory")
    ran = run("memory", "capture", "--", "true")
    assert ran.code == 0
    assert "warning: the command was not recorded\n" in ran.err


@pytest.mark.usefixtures("memory")
def test_doctor_counts_and_checks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound memory is ok; what must not be is named, and exit 1."""
    ran = run("memory", "doctor")
    assert ran.code == 0
    assert ran.out.splitlines()[1:] == [
        "entities      4",
        "observations  4",
        "relations     2",
        "deleted       0",
        "ok",
    ]
    found = run("memory", "doctor", "--json").json
    assert (found["ok"], found["entities"]) == (True, 4)
    monkeypatch.setattr("onceward.memory.graph.Graph.problems", lambda _: ["2 lost relations"])
    broken = run("memory", "doctor")
    assert broken.code == 1
    assert "problem       2 lost relations" in broken.out


def test_wrong_arguments_are_reported_with_a_fix(run: Run) -> None:
    """What is missing is exit 1, what is wrong is exit 2; both say what to do."""
    cases: list[Any] = [
        (("show", "absent"), 1, "no entity is named 'absent'"),
        (("history", "absent"), 1, "no entity is named 'absent'"),
        (("restore", "absent"), 1, "no entity is named 'absent'"),
        (("graph", "absent"), 1, "no entity is named 'absent'"),
        (("fix", "never seen", "--strategy", "x"), 1, "no entity is named 'err#never seen'"),
        (("restore",), 2, "neither NAME nor --change was passed"),
        (("restore", "x", "--change", "3"), 2, "NAME and --change were both passed"),
        (("restore", "--change", "99"), 2, "change: 99 is not a deletion"),
        (("graph", "x", "--depth", "9"), 2, "depth: must be 1 to 3"),
        (("graph", "x", "--nodes", "0"), 2, "nodes: must be 1 to 200"),
        (("graph", "x", "--format", "png"), 2, "png"),
        (("recall", "  "), 2, "text: must not be empty"),
        (("search", "x", "--cursor", "bogus"), 2, "cursor"),
        (("search", "x", "--limit", "0"), 2, "limit"),
        (("show", ""), 2, "is empty"),
        (("import", "/nowhere/m.jsonl"), 2, "does not exist"),
        (("import", "/tmp"), 2, "is a directory"),
        (("export", "/nowhere/m.jsonl"), 2, "/nowhere does not exist"),
        (("export", "/tmp"), 2, "is a directory"),
        (("export", "/dev/null"), 2, "is not a regular file"),
        (("export", "/dev/null", "--yes"), 2, "is not a regular file"),
        (("fix", "x"), 2, "--strategy"),
        (("fix", "x", "--strategy", " "), 1, "no entity"),
        (("capture",), 2, "Missing argument"),
        (("capture", "--", " "), 2, "command: is empty"),
        (("capture", "--bogus", "true"), 2, "No such option"),
        (("doctor", "--store", "mysql://x"), 2, "mysql"),
    ]
    for words, code, says in cases:
        ran = run("memory", *words)
        assert (ran.code, ran.out) == (code, "")
        error, fix = ran.err.splitlines()
        assert error.startswith("error: ")
        assert says in error
        assert fix.startswith("fix: ")
        machine = run("memory", *words[:1], "--json", *words[1:])
        assert machine.code == code
        assert json.loads(machine.err)["error"]["message"]


def test_help_is_quick_to_load() -> None:
    """The group imports neither stores nor protocols before a command runs."""
    import subprocess

    program = (
        "import sys, onceward.cli.memory; heavy = {'mcp', 'sqlite3', 'fastapi', 'onceward.memory'}"
        "; print(sorted(heavy & sys.modules.keys()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


def test_spellings_are_shown_merged_and_restored(run: Run) -> None:
    """The plan changes nothing; --yes merges, --undo brings the old names back."""
    with onceward.open() as ow:
        Memory(ow).create_entities(
            [{"name": each, "entityType": "thing", "observations": [each]} for each in "abc"]
        )
        with ow.transaction() as tx:
            for old, new in (("a", "concept#Rate Limits"), ("b", "concept#rate_limits")):
                tx.execute("update memory_entities set name = ? where name = ?", [new, old])
    assert run("memory", "doctor", "--json").json["otherSpellings"] == 2
    plan = run("memory", "merge")
    assert plan.out.splitlines() == [
        "concept#rate-limits  (new)",
        "  ← concept#Rate Limits",
        "  ← concept#rate_limits",
        "would merge 2 names",
        "nothing was changed; pass --yes to apply",
    ]
    assert run("memory", "merge", "--json").json["names"][0]["others"] == [
        "concept#Rate Limits",
        "concept#rate_limits",
    ]
    done = run("memory", "merge", "--yes", "--json").json
    assert run("memory", "search", "key:concept#", "--json").json["entities"] == [
        {"name": "concept#rate-limits", "entityType": "thing", "observations": ["a", "b"]}
    ]
    assert "can be undone" in run("memory", "merge").out
    assert run("memory", "merge", "--yes").out == "nothing to merge\n"
    number = str(done["merge"])
    undo = ("memory", "merge", "--undo", number)
    assert run(*undo).out.splitlines()[0] == f"would undo merge {number} and restore 2 names"
    assert run(*undo, "--json").json == {"applied": False, "merge": int(number), "names": 2}
    assert run(*undo, "--yes").out == "undone: 2 names restored\n"
    assert run(*undo, "--yes").out == "was undone already\n"
    assert run(*undo).code == 2
    assert run("memory", "merge", "--undo", "77", "--yes").code == 2


def test_the_file_of_the_reference_server_is_offered_once(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Once for each store and file; nothing is imported unasked."""
    path = tmp_path / "my memory.jsonl"
    monkeypatch.setenv("MEMORY_FILE_PATH", str(path))

    def offered(store: str | None = None) -> str:
        offer_import(store or "sqlite:///a.db", store)
        return capsys.readouterr().err

    assert offered() == ""  # There is no such file yet.
    path.write_text(json.dumps({"type": "entity", **BOB}) + "\n")
    assert offered().endswith(f"to import it: onceward memory import '{path}'\n")
    assert offered() == ""
    assert "import --store sqlite:///b.db" in offered("sqlite:///b.db")
    monkeypatch.delenv("MEMORY_FILE_PATH")
    assert offered("sqlite:///c.db") == ""
    assert run("memory", "search", "Bob", "--json").json["entities"] == []
    assert run("memory", "import", str(path), "--json").json["entities"] == 1
