"""Sessions: readable by their owner only, resumed by id, never outside the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.errors import InvalidArgument, StorageError
from onceward.lab.lab_paths import LabPaths
from onceward.lab.sessions import open_session, save_task
from tests.support.labs import make_lab, paths_in


def test_a_session_is_resumed_with_its_task(tmp_path: Path) -> None:
    """The id is all that one has to remember."""
    paths = paths_in(tmp_path)
    first = open_session(paths)
    assert first.session_id.startswith("lab_")
    changed = save_task(paths, first, {"type": "review", "runId": "run_1"})
    assert open_session(paths, first.session_id) == changed
    assert open_session(paths).session_id != first.session_id


def test_sessions_are_kept_for_their_owner_only(tmp_path: Path) -> None:
    """No other user of this machine can read the file, or the directories above it."""
    paths = paths_in(tmp_path)
    session = open_session(paths)
    path = paths.session(session.session_id) / "session.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert paths.root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "session_id", ["..", ".", "", "a/b", "../lab_x", "a\0", "-x", "x" * 81, "lab_\u00e9", "a\n"]
)
def test_h12_a_session_id_cannot_lead_elsewhere(tmp_path: Path, session_id: str) -> None:
    """Dots, slashes and the like are refused before anything is touched."""
    with pytest.raises(InvalidArgument, match="sessionId"):
        open_session(paths_in(tmp_path), session_id)
    assert not (tmp_path / "lab").exists()


def test_h12_a_session_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither its task nor its request ids are written through the link."""
    paths = paths_in(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    paths.sessions.mkdir(parents=True)
    (paths.sessions / "lab_link").symlink_to(outside)
    with pytest.raises(InvalidArgument, match="is a link"):
        open_session(paths, "lab_link")
    make_lab(tmp_path).recover()
    assert list(outside.iterdir()) == []
    (paths.sessions / "lab_file").mkdir()
    (paths.sessions / "lab_file" / "idempotency.jsonl").symlink_to(outside / "stolen.jsonl")
    with pytest.raises(StorageError, match="is a link"):
        paths.requests("lab_file")
    assert list(outside.iterdir()) == []


def test_the_fix_names_the_link(tmp_path: Path) -> None:
    """The directory of all sessions may be the link, not that of the session."""
    paths = paths_in(tmp_path)
    (tmp_path / "outside").mkdir()
    paths.root.mkdir()
    paths.sessions.symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidArgument, match="is a link") as refused:
        open_session(paths, "lab_1")
    assert refused.value.fix == f"replace the link {paths.sessions} by a directory"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"createdAt":5}',
        b'{"createdAt":"t","task":[1]}',
    ],
)
def test_a_broken_session_is_an_error_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    """A new session in its place would lose the task that was requested."""
    paths = paths_in(tmp_path)
    session = open_session(paths)
    path = paths.session(session.session_id) / "session.json"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="is not a valid session file"):
        open_session(paths, session.session_id)
    assert path.read_bytes() == content


def test_the_environment_names_the_files(tmp_path: Path) -> None:
    """Without it they lie below the home directory."""
    named = LabPaths.from_environment(
        {"CM_LAB_ROOT": str(tmp_path / "r"), "CM_FEEDBACK_STORE_PATH": str(tmp_path / "f.jsonl")}
    )
    assert named == LabPaths(root=tmp_path / "r", feedback=tmp_path / "f.jsonl")
    assert LabPaths.from_environment({"CM_LAB_ROOT": "~no-such-user/x"}).root.name == "x"
    default = LabPaths.from_environment({})
    assert default.root == Path("~/.cm/lab").expanduser()
    assert default.feedback == Path("~/.cm/feedback/feedback.jsonl").expanduser()
