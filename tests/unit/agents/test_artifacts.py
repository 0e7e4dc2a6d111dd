"""Artifacts: files below the workspace, by path, checksum and size; nothing else."""

import hashlib
import os
from pathlib import Path

import pytest

from onceward.agents import artifacts
from onceward.errors import FileMissing, InvalidArgument, WrongPath
from onceward.system import SystemFiles


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "main.py").write_text("print()\n")
    return workspace


def test_a_file_is_described_by_its_content(workspace: Path) -> None:
    """Path, checksum and size, and nothing that a clock says."""
    expected = {
        "path": "src/main.py",
        "sha256": hashlib.sha256(b"print()\n").hexdigest(),
        "size": 8,
    }
    assert artifacts.describe(workspace, "src/main.py") == expected
    assert artifacts.check(workspace, expected) is None


def test_a_changed_file_is_noticed(workspace: Path) -> None:
    """Other content of the same or another size, and a file that is gone, are problems."""
    artifact = artifacts.describe(workspace, "src/main.py")
    file = workspace / "src" / "main.py"
    file.write_text("PRINT()\n")
    assert artifacts.check(workspace, artifact) == "src/main.py has other content"
    file.write_text("longer than before")
    assert artifacts.check(workspace, artifact) == "src/main.py has 18 bytes, not 8"
    file.unlink()
    assert artifacts.check(workspace, artifact) == "src/main.py does not exist"
    with pytest.raises(FileMissing):
        artifacts.describe(workspace, "src/main.py")


BAD_PATHS = [
    "",
    "/etc/passwd",
    "..",
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "./src/main.py",
    "src//main.py",
    "src/",
    "src/\0main.py",
    "\ud800",
    "a/" * 3000 + "a",
    "state/run.json",
    "events/x",
    "receipts/x",
    "snapshots/x",
    "logs/x",
    "transcripts/x",
    ".git/config",
    "src/.git/hooks/post-commit",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_h31_paths_that_lead_elsewhere_are_refused(path: str, workspace: Path) -> None:
    """Absolute ones, ways up, our own folders and git's are no artifacts, existing or not."""
    with pytest.raises(InvalidArgument) as caught:
        artifacts.check_path(path)
    assert caught.value.fix
    with pytest.raises(InvalidArgument):
        artifacts.describe(workspace, path)
    with pytest.raises(InvalidArgument):
        artifacts.sync(workspace, [path], SystemFiles())
    assert artifacts.check(workspace, {"path": path, "sha256": "0" * 64, "size": 0})


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link.txt", "../outside/secret.txt", "link.txt"),
        ("folder", "../outside", "folder/secret.txt"),
        ("folder", "../outside", "folder/not/there/yet.txt"),
        ("dangling", "../outside/new.txt", "dangling"),
        ("inner", "src", "inner/main.py"),
        ("src/deep", "../../outside", "src/deep/new.txt"),
    ],
)
def test_h31_no_link_leads_to_an_artifact(
    link: str, target: str, path: str, workspace: Path
) -> None:
    """A link is refused wherever it stands, also on the way to a file that does not exist yet."""
    (workspace / link).symlink_to(target)
    with pytest.raises(InvalidArgument):
        artifacts.check_path(path, workspace)
    with pytest.raises((WrongPath, FileMissing)):
        artifacts.describe(workspace, path)
    assert artifacts.check(workspace, {"path": path, "sha256": "0" * 64, "size": 6})


@pytest.mark.parametrize(
    "path", ["new.txt", "src/new.txt", "new/deep/file.txt", "state.txt", "a/state/x"]
)
def test_files_that_do_not_exist_yet_are_fine(path: str, workspace: Path) -> None:
    """A plain path below the workspace may be an expected output."""
    artifacts.check_path(path, workspace)


def test_only_regular_files_are_artifacts(workspace: Path) -> None:
    """A directory, a pipe, and a path below a file are refused, without waiting."""
    os.mkfifo(workspace / "pipe")
    for path in ("src", "pipe", "src/main.py/below"):
        with pytest.raises(InvalidArgument):
            artifacts.check_path(path, workspace)


def test_synced_artifacts_survive_a_power_cut(workspace: Path) -> None:
    """After sync, every name and every content on the way is asked to be on disk."""
    calls: list[str] = []

    class Watched(SystemFiles):
        def sync_directory(self, path: Path) -> None:
            calls.append(str(path.resolve().relative_to(workspace)))
            super().sync_directory(path)

    artifacts.sync(workspace, ["src/main.py"], Watched())
    assert calls == ["src", "."]
    with pytest.raises(FileMissing):
        artifacts.sync(workspace, ["src/gone.py"], SystemFiles())
