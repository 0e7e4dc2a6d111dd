"""What a run left on disk, as the console shows it: its ledger, damaged or not, and artifacts."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from onceward.console import run_files
from onceward.orchestrator.ledger import seal_line
from onceward.system.safe_paths import RootedFile
from tests.support.console_requests import error_of
from tests.support.console_runs import BASE, ROUTES, RUN, Site, forged, record, started
from tests.support.function_agents import OrchestratorHarness, stage


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(stage(OrchestratorHarness(tmp_path / "workspace"), monkeypatch), tmp_path / "home")


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
    pages = site.pages(f"{BASE}/journal", "0", **place, limit=500)
    sizes = [len(page) for page in pages]
    assert sum(sizes) == 39
    assert sizes[0] == 2
    assert max(sizes) < 15


def test_a_damaged_line_is_shown_as_such(site: Site) -> None:
    """With what stands there, and why it is none; the others are readable."""
    hurt = record(2).replace(b"note", b"nota")
    place = site.write(started(), hurt, b"\xff\0<script>\n", b"\n", record(4), b'{"seq":5')
    items = site.body(f"{BASE}/journal", **place)["items"]
    assert [each["is_damaged"] for each in items] == [False, True, True, False]
    assert items[1]["problem"] == "its checksum does not match"
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
    """Its checksums fit, yet no run writes such records: shown as damaged, never a 500."""
    place = site.write(*lines)
    site.items()
    for route in ROUTES:
        assert site.get(f"{BASE}/{route}", **place).status_code == 200, route


def test_a_run_that_never_began_is_not_shown(site: Site) -> None:
    """Its first record was torn, so nothing has happened."""
    place = site.write(b'{"seq":1')
    assert site.items() == []
    assert error_of(site.get(f"{BASE}/run", **place))[:2] == (404, "RUN_NOT_FOUND")
    assert site.body(f"{BASE}/journal", **place)["items"] == []


# --- artifacts ------------------------------------------------------------------------------------


def artifact(site: Site, path: str, step: Any = 1) -> dict[str, Any]:
    found: dict[str, Any] = site.look("artifact", step=step, path=path)
    return found


def test_an_artifact_is_shown_as_it_is_and_as_it_was(site: Site) -> None:
    """Whether it is what the receipt says, and its text."""
    site.harness.run()
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


def test_a_run_can_be_looked_at_while_one_of_its_files_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a large file takes long; requests for the run itself do not wait for it."""
    site.harness.run()
    place, real = site.place, run_files._current_file
    site.look("run")  # Remembered from now on, for everybody.
    waited: list[bool] = []

    def look(file: RootedFile) -> run_files.CurrentFile:
        other = threading.Thread(target=site.get, args=(f"{BASE}/run",), kwargs=place)
        other.start()
        other.join(60)
        waited.append(other.is_alive())
        return real(file)

    monkeypatch.setattr(run_files, "_current_file", look)
    found = site.body(f"{BASE}/artifact", **place, step=1, path="src/T-1.txt")
    assert (found["is_as_recorded"], waited) == (True, [False])


def test_only_what_a_receipt_names_is_shown(site: Site) -> None:
    """Not another file of the workspace, nor one beside it, whatever the path looks like."""
    site.harness.run()
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
    site.harness.run()
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
    for folder in (".git", "state"):
        (site.root / folder).mkdir()
        (site.root / folder / "config").write_text("ours")
    outside = str(site.root.parent / "outside.txt")
    for path in ("../outside.txt", outside, ".git/config", "state/config", "a\0b"):
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


def test_a_symlinked_ledger_is_ignored(site: Site) -> None:
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
