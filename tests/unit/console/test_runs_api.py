"""The console's runs: the list, one run with its lives, its ledger, its reasons and its files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.asking import Asking, error_of
from tests.unit.orchestrator.theatre import FIRST, SECOND, Died, Theatre, stage

from onceward.console import run_files, run_reading
from onceward.console.house import House
from onceward.console.run_reading import runs_of
from onceward.console.run_views import newest_runs
from onceward.console.runs_http import runs_router
from onceward.console.workspaces import Workspaces
from onceward.errors import StoreUnavailable
from onceward.handle import Onceward
from onceward.journal.held import hold
from onceward.orchestrator.ledger import lines_of, seal_line
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.registry import workspace_id
from onceward.orchestrator.workspace import Workspace
from onceward.seams import SystemClock, SystemFiles

RUN = "run-20260101-000000-0000000a"
BASE = "/api/orchestrator"
ROUTES = ("run", "journal", "explain", "verify")


def no_store() -> Onceward:
    raise StoreUnavailable


class Site(Asking):
    """The routes of runs, and a workspace whose agents are played."""

    def __init__(self, theatre: Theatre, home: Path) -> None:
        self.theatre, self.root = theatre, theatre.workspace
        self.workspaces = Workspaces([self.root], home=home)
        house = House(
            ow=no_store,
            store_url="",
            version="0",
            actor="ann",
            workspaces=self.workspaces,
        )
        super().__init__(runs_router(house))

    @property
    def place(self) -> dict[str, str]:
        (run,) = [each["run_id"] for each in self.items()]
        return {"workspace": workspace_id(self.root), "run": run}

    def items(self, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body(f"{BASE}/runs", **query)["items"]
        return found

    def look(self, route: str, **query: Any) -> Any:
        return self.body(f"{BASE}/{route}", **{**self.place, **query})

    def die_in(self, action: str, nth: int = 1) -> None:
        """Let the orchestrator die while this command is under way."""
        self.theatre.die_at(action, nth)
        with pytest.raises(Died):
            self.theatre.run() if not list(self.root.glob("events/*")) else self.theatre.resume()

    def write(self, *lines: bytes, run: str = RUN) -> dict[str, str]:
        """Put a ledger there, line by line."""
        path = self.root / "events" / f"{run}.ndjson"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(lines))
        return {"workspace": workspace_id(self.root), "run": run}


def record(seq: int, kind: str = "note", **fields: Any) -> bytes:
    at = f"2026-01-01T00:00:{seq % 60:02}.000Z"
    return seal_line({"seq": seq, "at": at, "kind": kind, **fields})


def forged(text: str) -> bytes:
    """Return the line of what no writer of ours would write, with a checksum that fits."""
    body = text.encode()[:-1]
    return body + f',"sum":"{hashlib.sha256(body).hexdigest()[:16]}"}}\n'.encode()


def started(run: str = RUN) -> bytes:
    task = {"id": "T-1", "goal": "build  it", "inputs": {}, "expected_outputs": []}
    return record(1, "run.started", run_id=run, tasks=[task])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(stage(Theatre(tmp_path / "workspace"), monkeypatch), tmp_path / "home")


# --- the list -------------------------------------------------------------------------------------


def test_a_run_in_the_list(site: Site) -> None:
    """It has the fields of `runs list --json`, where it is, what it is about, and its state."""
    empty = site.body(f"{BASE}/runs")
    assert (empty["items"], empty["next"]) == ([], None)
    result = site.theatre.run(FIRST, SECOND)
    (item,) = site.items()
    assert (item["run_id"], item["status"], item["state"]) == (result.run_id, "done", "done")
    assert (item["goal"], item["tasks"], item["steps"]) == ("first", ["T-1", "T-2"], 6)
    assert item["workspace"] == {"id": workspace_id(site.root), "path": str(site.root)}
    assert not item["is_held"]


def test_runs_of_all_workspaces_stand_in_one_list(site: Site, tmp_path: Path) -> None:
    """The latest first, page by page, each once, whatever workspace it is in."""
    other = tmp_path / "other"
    (other / "events").mkdir(parents=True)
    ids = [f"run-202601{day:02}-000000-0000000{day % 10}" for day in range(1, 10)]
    for number, run in enumerate(ids):
        site.write(started(run), run=run)
        if number % 2:
            (site.root / "events" / f"{run}.ndjson").rename(other / "events" / f"{run}.ndjson")
    both = Asking(runs_router(_house(Workspaces([site.root, other], home=tmp_path))))
    found: list[str] = []
    after: str | None = None
    while True:
        page = both.body(f"{BASE}/runs", limit=2, **({"after": after} if after else {}))
        found += [each["run_id"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
        assert len(page["items"]) == 2
    assert found == ids[::-1]


def _house(workspaces: Workspaces) -> House:
    return House(ow=no_store, store_url="", version="0", actor="ann", workspaces=workspaces)


def test_runs_are_chosen_by_state_and_words(site: Site) -> None:
    """A run that nobody works on is crashed, though its ledger cannot know."""
    site.die_in("review")
    site.write(started(), record(2, "run.completed"))
    assert [each["state"] for each in site.items()] == ["crashed", "done"]
    assert [each["state"] for each in site.items(status="crashed")] == ["crashed"]
    assert [each["status"] for each in site.items(status="running")] == ["running"]
    assert [each["run_id"] for each in site.items(status="done")] == [RUN]
    assert [each["goal"] for each in site.items(q="BUILD IT")] == ["build it"]
    assert [each["run_id"] for each in site.items(q="0000000a")] == [RUN]
    assert len(site.items(q="t-1")) == len(site.items(q=str(site.root))) == 2
    assert site.items(q="nowhere") == []


def test_a_run_that_somebody_works_on_is_not_crashed(site: Site) -> None:
    """Looking for that takes no lock, so that nobody is in the way of a resume."""
    place = site.write(started())
    lock = Workspace(root=site.root).lock(RUN)
    held = hold(lock, SystemFiles(), SystemClock())
    note = lock.read_bytes()
    (item,) = site.items()
    assert (item["state"], item["is_held"]) == ("running", True)
    (life,) = site.body(f"{BASE}/run", **place)["lives"]
    assert (life["to"], life["ending"]) == (None, "running")
    held.release()
    (item,) = site.items()
    assert (item["state"], item["is_held"]) == ("crashed", False)
    assert lock.read_bytes() == note


def test_a_ledger_that_has_not_changed_is_not_read_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of one that has grown only what is new."""
    site.write(started())
    reads: list[int] = []

    def counted(file: Any, start: int, end: int) -> Any:
        reads.append(end - start)
        return lines_of(file, start, end)

    monkeypatch.setattr(run_reading, "lines_of", counted)
    for _ in range(3):
        assert site.items()[0]["updated_at"].endswith(":01.000Z")
    assert len(reads) == 1
    path = site.root / "events" / f"{RUN}.ndjson"
    with path.open("ab") as file:
        file.write(record(2))
    assert site.items()[0]["updated_at"].endswith(":02.000Z")
    assert reads[1:] == [len(record(2))]
    path.write_bytes(started() + record(2, "run.completed") + record(3))
    assert site.items()[0]["status"] == "done"
    assert [each.summary.run_id for each in newest_runs(site.workspaces, limit=5)] == [RUN]
    assert len(reads) == 3


def test_the_memory_of_runs_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and however long their ledgers."""
    monkeypatch.setattr(run_reading, "ITEMS_KEPT_MAX", 2)
    monkeypatch.setattr(run_reading, "STORIES_KEPT_MAX", 2)
    for number in range(5):
        site.write(started(), run=f"run-20260101-000000-0000000{number}")
    assert len(site.items()) == 5
    runs = runs_of(site.workspaces)
    assert (len(runs._items), len(runs._stories)) == (2, 2)
    monkeypatch.setattr(run_reading, "STORIES_BYTES_MAX", 1)
    assert len(site.items()) == 5
    assert len(runs._stories) == 1


def test_a_long_search_gives_way(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that looked at enough says where to go on, though it has found nothing yet."""
    monkeypatch.setattr(run_reading, "SCAN_RUNS_MAX", 2)
    for number in range(5):
        site.write(started(), run=f"run-20260101-000000-0000000{number}")
    query: dict[str, Any] = {"q": "00000000"}
    pages = []
    while True:
        page = site.body(f"{BASE}/runs", **query)
        pages.append(len(page["items"]))
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert pages == [0, 0, 1]


# --- one run --------------------------------------------------------------------------------------


def test_a_run_tells_of_its_crashes_and_what_was_not_done_again(site: Site) -> None:
    """Two crashes, two resumes: which steps were under way, and that none was redone."""
    site.die_in("review")
    site.die_in("update_spec")
    found = site.look("run")
    assert [each["ending"] for each in found["lives"]] == ["crashed", "crashed"]
    assert [each["text"] for each in found["crashes"]] == [
        "died in step 2, review",
        "died in step 3, update_spec; nobody has resumed it yet",
    ]
    site.theatre.resume()
    found = site.look("run")
    assert [each["ending"] for each in found["lives"]] == ["crashed", "crashed", "done"]
    assert found["headline"] == "crashed 2×, resumed from step 3, 0 recorded steps redone"  # noqa: RUF001 - a sign of its own
    assert (found["replays"], found["redone"], found["is_cut"]) == (2, 0, False)
    assert [each["stage"] for each in found["commands"]] == ["implement", "review", "update_spec"]
    assert found["commands"][0]["artifacts"][0]["path"] == "src/T-1.txt"
    ends = [(each["from"], each["to"]) for each in found["lives"]]
    assert all(start <= end for start, end in ends)
    assert found["summary"]["resumed"] == 2


def test_a_run_that_was_never_interrupted_says_so(site: Site) -> None:
    """There is one life, and it is done."""
    site.theatre.run()
    found = site.look("run")
    assert found["headline"] == "never interrupted, 3 steps recorded"
    assert [each["ending"] for each in found["lives"]] == ["done"]
    assert found["crashes"] == []


def test_a_step_that_had_to_be_redone_is_counted(site: Site) -> None:
    """Its file was gone when the run was resumed, so its receipt did not help."""
    site.theatre.die_at("update_spec")
    with pytest.raises(Died):
        site.theatre.run()
    (site.root / "src" / "T-1.txt").unlink()
    site.theatre.resume()
    found = site.look("run")
    assert found["redone"] == 1
    assert found["headline"].endswith("1 recorded step redone")


def test_a_failed_and_a_stopped_life_say_so(site: Site) -> None:
    """Neither is a crash."""
    site.theatre.limits = RunLimits(attempts_max=1)
    site.theatre.plays = lambda *_: {"code": "NO", "message": "cannot", "retryable": False}
    site.theatre.run()
    found = site.look("run")
    assert [each["ending"] for each in found["lives"]] == ["failed"]
    assert found["summary"]["state"] == "failed"
    place = site.write(started(), record(2, "run.stopped", reason="asked"))
    stopped = site.body(f"{BASE}/run", **place)
    assert [each["ending"] for each in stopped["lives"]] == ["stopped"]
    assert stopped["headline"] == "stopped 1×"  # noqa: RUF001 - the same


def test_every_command_is_explained(site: Site) -> None:
    """As the command line does it."""
    site.theatre.run()
    orchestrator = site.theatre.orchestrator()
    place = site.place
    told = site.look("explain")["commands"]
    assert [each["why"] for each in told] == [
        list(each.why) for each in orchestrator.explain(place["run"])
    ]
    assert told[0]["components"]["action"] == "implement"


def test_the_files_of_a_run_are_verified(site: Site) -> None:
    """What was changed since is named, and nothing is changed by looking."""
    site.theatre.run()
    assert site.look("verify")["ok"]
    (site.root / "src" / "T-1.txt").write_text("something else")
    found = site.look("verify")
    assert not found["ok"]
    assert [each["path"] for each in found["findings"]] == ["src/T-1.txt"]


# --- the ledger -----------------------------------------------------------------------------------


def test_the_ledger_is_read_page_by_page(site: Site) -> None:
    """By bytes, so that the millionth page costs what the first does."""
    place = site.write(started(), *(record(number) for number in range(2, 12)))
    found: list[int] = []
    after: str | None = None
    while True:
        query = {"after": after} if after else {}
        page = site.body(f"{BASE}/journal", **place, limit=4, **query)
        found += [each["seq"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert found == list(range(1, 12))
    (first, *_) = site.body(f"{BASE}/journal", **place)["items"]
    assert (first["kind"], first["is_damaged"], first["problem"]) == ("run.started", False, None)
    assert first["line"]["tasks"][0]["goal"] == "build  it"
    assert first["at"] == "2026-01-01T00:00:01.000Z"


def test_a_page_of_the_ledger_is_bounded_in_bytes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long records are fewer to a page, and one that is longer than a page is one by itself."""
    monkeypatch.setattr(run_files, "PAGE_BYTES_MAX", 1000)
    place = site.write(started(), record(2, text="x" * 2000), *(record(n) for n in range(3, 40)))
    sizes = []
    after = "0"
    while after is not None:
        page = site.body(f"{BASE}/journal", **place, limit=500, after=after)
        sizes.append(len(page["items"]))
        after = page["next"]
    assert sum(sizes) == 39
    assert sizes[0] == 2
    assert max(sizes) < 15


def test_a_damaged_line_is_shown_as_such(site: Site) -> None:
    """With what stands there, and why it is none; the others are readable."""
    hurt = record(2).replace(b"note", b"nota")
    place = site.write(started(), hurt, b"\xff\0<script>\n", b"\n", record(4), b'{"seq":5')
    items = site.body(f"{BASE}/journal", **place)["items"]
    assert [each["is_damaged"] for each in items] == [False, True, True, False]
    assert items[1]["problem"] == "its checksum does not fit"
    assert items[1]["line"] == hurt.decode().rstrip()
    assert (items[2]["kind"], items[2]["seq"], items[2]["line"]) == (
        "damaged",
        None,
        "\N{REPLACEMENT CHARACTER}\0<script>",
    )
    found = site.body(f"{BASE}/run", **place)
    assert found["summary"]["status"] == "failed"
    assert "lacks record 2" in found["summary"]["reason"]
    assert found["summary"]["damaged"] == 2
    assert "its ledger is damaged" in found["headline"]
    assert site.body(f"{BASE}/explain", **place)["commands"] == []
    assert not site.body(f"{BASE}/verify", **place)["ok"]
    assert [each["run_id"] for each in site.items()] == [RUN]


NONSENSE = [
    [b"\xff\n"],
    [record(1, "run.started")],
    [record(1, "run.started", run_id="../../x", tasks=[{}])],
    [record(1, "run.started", run_id=7, tasks=5)],
    [started(), record(2, "command", step=1, stage="a", round=1, command={})],
    [started(), record(2, "command", step=1, stage=None, round=1, command={"task_id": []})],
    [started(), forged('{"seq":2,"at":"t","kind":"receipt","step":' + "9" * 300 + "}")],
    [started(), forged('{"seq":2,"at":"t","kind":"receipt","step":123456789012345678}')],
    [started(), forged('{"seq":2,"at":"t","kind":"note","a":' + "[" * 900 + "]" * 900 + "}")],
    [started(), record(2, "redo", step={})],
    [started(), record(2, "run.failed", reason=5, step="x")],
    [started(), seal_line({"seq": "2"})],
    [started(), seal_line({"at": 5})],
    [started(), record(2, "command", step=1, stage="a", round="x", command={"task_id": "T-1"})],
]


@pytest.mark.parametrize("lines", NONSENSE)
def test_a_ledger_that_makes_no_sense_is_no_failure_of_ours(site: Site, lines: list[bytes]) -> None:
    """Its checksums fit, and still nobody could have written it: shown as damaged, never a 500."""
    place = site.write(*lines)
    site.items()
    for route in ROUTES:
        assert site.get(f"{BASE}/{route}", **place).status_code == 200, route


def test_a_run_that_never_began_is_not_shown(site: Site) -> None:
    """Its first record was torn, so nothing has happened."""
    place = site.write(b'{"seq":1')
    assert site.items() == []
    assert error_of(site.get(f"{BASE}/run", **place))[:2] == (404, "NOT_FOUND")
    assert site.body(f"{BASE}/journal", **place)["items"] == []


# --- artifacts ------------------------------------------------------------------------------------


def artifact(site: Site, path: str, step: Any = 1) -> dict[str, Any]:
    found: dict[str, Any] = site.look("artifact", step=step, path=path)
    return found


def test_an_artifact_is_shown_as_it_is_and_as_it_was(site: Site) -> None:
    """Whether it is what the receipt says, and its text."""
    site.theatre.run()
    found = artifact(site, "src/T-1.txt")
    assert (found["text"], found["is_as_recorded"]) == ("implement 1\n", True)
    assert found["recorded"] == {"sha256": found["sha256"], "size": found["size"]}
    file = site.root / "src" / "T-1.txt"
    file.write_bytes(b"\xff\xfe")
    found = artifact(site, "src/T-1.txt")
    assert (found["text"], found["is_as_recorded"], found["size"]) == (None, False, 2)
    assert "UTF-8" in found["reason"]
    file.write_text("x" * (run_files.TEXT_BYTES_MAX + 1))
    assert "bytes" in artifact(site, "src/T-1.txt")["reason"]
    file.unlink()
    found = artifact(site, "src/T-1.txt")
    assert (found["sha256"], found["size"], found["is_as_recorded"]) == (None, None, False)
    assert found["reason"]


def test_only_what_a_receipt_names_is_shown(site: Site) -> None:
    """Not another file of the workspace, nor one beside it, whatever the path looks like."""
    site.theatre.run()
    (site.root / "secret.txt").write_text("mine")
    (site.root.parent / "outside.txt").write_text("mine")
    run = site.place["run"]
    for path in (
        "secret.txt",
        "../outside.txt",
        str(site.root.parent / "outside.txt"),
        "src/../secret.txt",
        "src//T-1.txt",
        "./src/T-1.txt",
        f"events/{run}.ndjson",
        "src/T-1.txt\0",
        "",
    ):
        response = site.get(f"{BASE}/artifact", **site.place, step=1, path=path)
        assert error_of(response)[0] in (400, 404), path
    for step in (2, 99, 10**9):
        response = site.get(f"{BASE}/artifact", **site.place, step=step, path="src/T-1.txt")
        assert error_of(response) == (404, "NOT_FOUND", "path")


def test_a_link_leads_nowhere(site: Site) -> None:
    """Neither the file nor a directory on the way to it may be one."""
    site.theatre.run()
    outside = site.root.parent / "outside"
    outside.mkdir()
    (outside / "T-1.txt").write_text("mine")
    file = site.root / "src" / "T-1.txt"
    file.unlink()
    file.symlink_to(outside / "T-1.txt")
    found = artifact(site, "src/T-1.txt")
    assert (found["text"], found["sha256"], found["is_as_recorded"]) == (None, None, False)
    file.unlink()
    (site.root / "src").rmdir()
    (site.root / "src").symlink_to(outside)
    assert artifact(site, "src/T-1.txt")["text"] is None


def test_a_receipt_that_names_what_it_must_not_shows_nothing(site: Site) -> None:
    """A ledger may be forged; the way to a file is checked where it is opened."""
    (site.root.parent / "outside.txt").write_text("mine")
    for path in ("../outside.txt", str(site.root.parent / "outside.txt"), ".git/config", "a\0b"):
        named = [{"path": path, "sha256": "0", "size": 4}, 5]
        place = site.write(
            started(),
            record(2, "task.started", task_id="T-1", snapshot_id="s"),
            record(3, "command", step=1, stage="a", round=1, command={"task_id": "T-1"}),
            record(4, "command.answered", step=1, event={"artifacts": named}),
            record(5, "receipt", step=1, tree="t", path="p", checksum="c"),
        )
        found = site.body(f"{BASE}/artifact", **place, step=1, path=path)
        assert (found["text"], found["sha256"]) == (None, None), path


def test_a_ledger_behind_a_link_is_none(site: Site) -> None:
    """Else an agent could have the console read any file of its user's."""
    place = site.write(started())
    ledger = site.root / "events" / f"{RUN}.ndjson"
    ledger.rename(site.root / "moved")
    ledger.symlink_to(site.root / "moved")
    assert site.items() == []
    for route in ROUTES:
        assert error_of(site.get(f"{BASE}/{route}", **place))[0] == 400
    ledger.unlink()
    os.mkfifo(ledger)
    assert site.items() == []
    ledger.unlink()
    (site.root / "events").rmdir()
    (site.root / "events").symlink_to("/etc")
    assert site.items() == []


# --- what is refused ------------------------------------------------------------------------------


def test_a_run_that_is_not_there(site: Site) -> None:
    """Nor its workspace, nor a name that leads elsewhere."""
    place = site.write(started())
    for run in ("run-20260101-000000-ffffffff", "../x", "", "\0", "x" * 90, "%2e%2e", "run-1"):
        for route in ROUTES:
            response = site.get(f"{BASE}/{route}", workspace=place["workspace"], run=run)
            assert error_of(response)[0] in (400, 404), run
    for workspace in ("0" * 12, "../..", "", "\0"):
        response = site.get(f"{BASE}/run", workspace=workspace, run=RUN)
        assert error_of(response)[:2] == (404, "NOT_FOUND"), workspace


PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("runs", {"limit": "0"}),
    ("runs", {"limit": "9" * 5000}),
    ("runs", {"after": "x"}),
    ("runs", {"after": "9" * 3000}),
    ("runs", {"status": "odd"}),
    ("runs", {"q": "x" * 1001}),
    ("journal", {"after": "-1"}),
    ("journal", {"after": "1"}),
    ("journal", {"after": "9" * 18}),
    ("journal", {"after": "9" * 3000}),
    ("journal", {"after": "\0"}),
    ("journal", {"limit": "-1"}),
    ("artifact", {"path": "a", "step": "0"}),
    ("artifact", {"path": "a", "step": "9" * 30}),
    ("artifact", {"path": "x" * 5000, "step": "1"}),
]


@pytest.mark.parametrize(("route", "query"), PARAMETERS)
def test_a_bad_parameter_is_refused(site: Site, route: str, query: dict[str, Any]) -> None:
    """With a sentence, never with a failure."""
    place = site.write(started()) if route != "runs" else {}
    assert error_of(site.get(f"{BASE}/{route}", **place, **query))[0] == 400


def test_looking_changes_nothing(site: Site) -> None:
    """Not one file of the workspace is written, made or taken away."""
    site.die_in("review")

    def files() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in site.root.rglob("*")
        }

    before = files()
    for route in ROUTES:
        site.look(route)
    assert files() == before
