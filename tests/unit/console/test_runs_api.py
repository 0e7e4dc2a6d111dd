"""The console's runs: the list, and one run with its lives, its reasons and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.console import run_index
from onceward.console.run_index import runs_of
from onceward.console.run_views import newest_runs
from onceward.console.runs_http import runs_router
from onceward.console.workspaces import Workspaces
from onceward.journal.process_lock import acquire_process_lock
from onceward.orchestrator.ledger import ledger_lines
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_registry import workspace_id
from onceward.system import SystemClock, SystemFiles
from tests.support.console_requests import Asking, error_of
from tests.support.console_runs import BASE, ROUTES, RUN, Site, context_of, record, started
from tests.support.function_agents import FIRST, SECOND, OrchestratorHarness, SimulatedCrash, stage


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(stage(OrchestratorHarness(tmp_path / "workspace"), monkeypatch), tmp_path / "home")


# --- the list -------------------------------------------------------------------------------------


def test_a_run_in_the_list(site: Site) -> None:
    """It has the fields of `runs list --json`, where it is, what it is about, and its state."""
    empty = site.body(f"{BASE}/runs")
    assert (empty["items"], empty["next"]) == ([], None)
    result = site.harness.run(FIRST, SECOND)
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
    both = Asking(runs_router(context_of(Workspaces([site.root, other], home=tmp_path))))
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


def test_runs_are_chosen_by_state_and_words(site: Site) -> None:
    """A run that no process works on is crashed, though its ledger cannot know."""
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


def test_a_run_that_a_process_works_on_is_not_crashed(site: Site) -> None:
    """Looking for that takes no lock, so that a resume is not blocked."""
    place = site.write(started())
    lock = Workspace(root=site.root).lock(RUN)
    held = acquire_process_lock(lock, SystemFiles(), SystemClock())
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
        return ledger_lines(file, start, end)

    monkeypatch.setattr(run_index, "ledger_lines", counted)
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
    monkeypatch.setattr(run_index, "ITEMS_KEPT_MAX", 2)
    monkeypatch.setattr(run_index, "HISTORIES_KEPT_MAX", 2)
    for number in range(5):
        site.write(started(), run=f"run-20260101-000000-0000000{number}")
    assert len(site.items()) == 5
    runs = runs_of(site.workspaces)
    assert (len(runs._items), len(runs._stories)) == (2, 2)
    monkeypatch.setattr(run_index, "HISTORIES_BYTES_MAX", 1)
    assert len(site.items()) == 5
    assert len(runs._stories) == 1


def test_a_long_search_gives_way(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that looked at enough says where to go on, though it has found nothing yet."""
    monkeypatch.setattr(run_index, "SCAN_RUNS_MAX", 2)
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


def test_a_long_ledger_hides_no_other_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest runs include each failed run, however much there is to read."""
    monkeypatch.setattr(run_index, "SCAN_BYTES_MAX", 1)
    monkeypatch.setattr(run_index, "SCAN_RUNS_MAX", 1)
    ids = [f"run-20260101-000000-0000000{number}" for number in range(4)]
    for run in ids[:3]:
        site.write(started(run), record(2, "run.failed", reason="no", step=1), run=run)
    site.write(started(ids[3]), run=ids[3])
    found = newest_runs(site.workspaces, limit=3)
    assert [each.summary.run_id for each in found] == ids[:0:-1]
    assert [each.state for each in found] == ["crashed", "failed", "failed"]


def test_a_run_at_work_that_was_read_before_may_be_shown_as_it_was(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there is much to read: it cannot have ended. One that is not held is read again."""
    ids = [f"run-20260101-000000-0000000{number}" for number in range(2)]
    locks = [Workspace(root=site.root).lock(run) for run in ids]
    held = [acquire_process_lock(lock, SystemFiles(), SystemClock()) for lock in locks]
    for run in ids:
        site.write(started(run), run=run)
    newest_runs(site.workspaces, limit=5)
    monkeypatch.setattr(run_index, "SCAN_BYTES_MAX", 1)
    for run in ids:
        site.write(started(run), record(2, "run.failed", reason="no", step=1), run=run)
    found = newest_runs(site.workspaces, limit=5)
    assert [each.state for each in found] == ["failed", "running"]
    for each in held:
        each.release()
    found = newest_runs(site.workspaces, limit=5)
    assert [each.state for each in found] == ["failed", "failed"]


# --- one run --------------------------------------------------------------------------------------


def test_a_run_lists_its_crashes_and_what_was_not_done_again(site: Site) -> None:
    """Two crashes, two resumes: which steps were under way, and that none was redone."""
    site.die_in("review")
    site.die_in("update_spec")
    found = site.look("run")
    assert [each["ending"] for each in found["lives"]] == ["crashed", "crashed"]
    assert [each["text"] for each in found["crashes"]] == [
        "died in step 2, review",
        "died in step 3, update_spec; it has not been resumed yet",
    ]
    site.harness.resume()
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
    site.harness.run()
    found = site.look("run")
    assert found["headline"] == "never interrupted, 3 steps recorded"
    assert [each["ending"] for each in found["lives"]] == ["done"]
    assert found["crashes"] == []


def test_a_step_that_had_to_be_redone_is_counted(site: Site) -> None:
    """Its file was gone when the run was resumed, so its receipt did not help."""
    site.harness.die_at("update_spec")
    with pytest.raises(SimulatedCrash):
        site.harness.run()
    (site.root / "src" / "T-1.txt").unlink()
    site.harness.resume()
    found = site.look("run")
    assert (found["redone"], found["replays"]) == (1, 1)
    assert found["headline"].endswith("1 recorded step redone")


def test_a_failed_and_a_stopped_life_say_so(site: Site) -> None:
    """Neither is a crash."""
    site.harness.limits = RunLimits(attempts_max=1)
    site.harness.plays = lambda *_: {"code": "NO", "message": "cannot", "retryable": False}
    site.harness.run()
    found = site.look("run")
    assert [each["ending"] for each in found["lives"]] == ["failed"]
    assert found["summary"]["state"] == "failed"
    place = site.write(started(), record(2, "run.stopped", reason="asked"))
    stopped = site.body(f"{BASE}/run", **place)
    assert [each["ending"] for each in stopped["lives"]] == ["stopped"]
    assert stopped["headline"] == "stopped 1×"  # noqa: RUF001 - the same


def test_every_command_is_explained(site: Site) -> None:
    """As the command line does it."""
    site.harness.run()
    orchestrator = site.harness.orchestrator()
    place = site.place
    explained = site.look("explain")["commands"]
    assert [each["why"] for each in explained] == [
        list(each.why) for each in orchestrator.explain(place["run"])
    ]
    assert explained[0]["components"]["action"] == "implement"


def test_the_files_of_a_run_are_verified(site: Site) -> None:
    """What was changed since is named, and nothing is changed by looking."""
    site.harness.run()
    assert site.look("verify")["ok"]
    (site.root / "src" / "T-1.txt").write_text("something else")
    found = site.look("verify")
    assert not found["ok"]
    assert [each["path"] for each in found["findings"]] == ["src/T-1.txt"]


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
