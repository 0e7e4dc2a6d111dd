"""Workspaces: those that were named and those that runs have noted, and nothing that is gone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from onceward.console.workspaces import Workspaces, workspace_item
from onceward.errors import NotFound
from onceward.orchestrator import workspace_registry
from onceward.orchestrator.workspace_registry import WorkspaceRegistry, workspace_id
from tests.support.function_agents import OrchestratorHarness, stage


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "home"
    monkeypatch.setenv("ONCEWARD_HOME", str(found))
    return found


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def notes(home: Path) -> list[str]:
    return sorted(each.name for each in (home / "workspaces").glob("*.json"))


def test_a_run_notes_its_workspace(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A started or resumed run is found by the console without a setting."""
    harness = stage(OrchestratorHarness(tmp_path / "workspace"), monkeypatch)
    result = harness.run()
    assert result.status == "done"
    assert Workspaces().list() == (harness.workspace,)
    (name,) = notes(home)
    assert name == f"{workspace_id(harness.workspace)}.json"
    noted = json.loads((home / "workspaces" / name).read_text())
    assert noted == {"schemaVersion": 1, "path": str(harness.workspace)}
    written = (home / "workspaces" / name).stat()
    harness.resume(result.run_id)
    assert (home / "workspaces" / name).stat() == written


def test_a_home_that_cannot_be_written_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note serves the console; the run does not need it."""
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "file" / "home"))
    harness = stage(OrchestratorHarness(tmp_path / "workspace"), monkeypatch)
    assert harness.run().status == "done"
    assert Workspaces().list() == ()


def test_those_that_are_gone_are_passed_over(home: Path, tmp_path: Path) -> None:
    """They come back when they are there again."""
    a, b = made(tmp_path / "a"), made(tmp_path / "b")
    WorkspaceRegistry(home=home).add(a)
    spaces = Workspaces([b], home=home)
    assert spaces.list() == (b, a)
    shutil.rmtree(a)
    assert spaces.list() == (b,)
    made(a)
    shutil.rmtree(b)
    assert spaces.list() == (a,)


def test_a_workspace_is_one_by_whatever_way_one_comes(home: Path, tmp_path: Path) -> None:
    """Named, noted and through a link: it is shown once, by its real path."""
    real = made(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    WorkspaceRegistry(home=home).add(tmp_path / "link")
    spaces = Workspaces([tmp_path / "link", real], home=home)
    assert spaces.list() == (real,)
    assert spaces.find(workspace_id(tmp_path / "link")) == real


def test_a_note_that_is_damaged_is_none(home: Path, tmp_path: Path) -> None:
    """Whatever stands in the folder, a note leads only to the place that it is named after."""
    real, other = made(tmp_path / "real"), made(tmp_path / "other")
    folder = made(home / "workspaces")
    good = json.dumps({"schemaVersion": 1, "path": str(real)})
    bad = {
        workspace_id(other): good,
        "0" * 12: "[" * 100_000,
        "1" * 12: "{}",
        "2" * 12: '{"path": 5}',
        "3" * 12: '{"path": "a\\u0000b"}',
        "4" * 12: '{"path": "real"}',
        "5" * 12: "\ud800".encode(errors="surrogatepass").decode("latin-1"),
    }
    for name, text in bad.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "6.json").write_text(good)
    made(folder / f"{'7' * 12}.json")
    (folder / f"{'8' * 12}.json").symlink_to("/dev/zero")
    os.mkfifo(folder / f"{'9' * 12}.json")
    assert Workspaces(home=home).list() == ()
    (folder / f"{workspace_id(real)}.json").write_text(good)
    assert Workspaces(home=home).list() == (real,)


def test_too_many_notes_lose_those_that_are_gone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has a limit, and what is there outlives what is not."""
    monkeypatch.setattr(workspace_registry, "WORKSPACES_MAX", 3)
    there = made(tmp_path / "there")
    WorkspaceRegistry(home=home).add(there)
    for number in range(5):
        gone = made(tmp_path / str(number))
        WorkspaceRegistry(home=home).add(gone)
        gone.rmdir()
    assert len(notes(home)) <= 4
    assert Workspaces(home=home).list() == (there,)


def test_a_path_that_is_no_text_is_a_path_all_the_same(home: Path, tmp_path: Path) -> None:
    """It is noted, found, and shown with its bytes written out."""
    odd = made(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")))
    WorkspaceRegistry(home=home).add(odd)
    assert Workspaces(home=home).list() == (odd,)
    assert workspace_item(odd).path.endswith("/\\xff\\xfe")


def test_an_unknown_id_is_not_found(home: Path) -> None:
    """Also one that is no id at all."""
    for id_ in ("", "0" * 12, "../..", "x" * 5000, "\0", "\ud800"):
        with pytest.raises(NotFound):
            Workspaces(home=home).find(id_)
