"""Token file: one token for all servers of a user, kept over restarts and private to the user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.errors import NotWritable, StorageError
from onceward.http.token_file import open_token, read_token, rotate_token, token_path
from onceward.system import crash_points
from tests.support.forked_children import forked
from tests.support.namespaces import SECOND_UID

PROCESSES = 8


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_h65_the_token_stays_and_is_private() -> None:
    """The first call makes it, later ones read it, and its file is its owner's alone."""
    assert read_token() is None
    token = open_token()
    assert token.startswith("tok_")
    assert open_token() == read_token() == token
    assert (mode(token_path()), mode(token_path().parent)) == (0o600, 0o700)
    assert token_path().stat().st_uid == os.geteuid()


def test_a_rotation_replaces_the_file_atomically() -> None:
    """There is another token, in another file, and nothing lies beside it but the lock."""
    first, inode = open_token(), token_path().stat().st_ino
    second = rotate_token()
    assert second != first
    assert read_token() == second
    assert token_path().stat().st_ino != inode
    assert sorted(each.name for each in token_path().parent.iterdir()) == [".token.lock", "token"]
    assert mode(token_path()) == 0o600


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620, 0o666])
def test_h65_a_file_that_others_may_read_is_refused(wide: int) -> None:
    """They may know the token; a new one helps."""
    open_token()
    token_path().chmod(wide)
    with pytest.raises(StorageError, match=f"{wide:04o}") as refused:
        open_token()
    assert "onceward token rotate" in refused.value.fix
    assert rotate_token() == open_token()
    assert mode(token_path()) == 0o600


@pytest.mark.parametrize("what", ["link", "directory", "pipe"])
def test_h65_what_is_no_file_is_refused(what: str, tmp_path: Path) -> None:
    """A link would let its maker choose the token."""
    token_path().parent.mkdir(parents=True)
    if what == "link":
        (tmp_path / "theirs").write_text("tok_chosen-by-another-user\n")
        (tmp_path / "theirs").chmod(0o600)
        token_path().symlink_to(tmp_path / "theirs")
    elif what == "directory":
        token_path().mkdir(0o700)
    else:
        os.mkfifo(token_path(), 0o600)
    with pytest.raises(StorageError) as refused:
        open_token()
    assert str(token_path()) in refused.value.message
    assert "remove it" in refused.value.fix


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"tok_short", b"tok_6f1c2a7e b\xff\n" * 3, b"x" * 300]
)
def test_what_is_no_token_is_refused(text: bytes) -> None:
    """An empty token would let everybody in."""
    open_token()
    token_path().write_bytes(text)
    with pytest.raises(StorageError, match="does not hold a token") as refused:
        open_token()
    assert "onceward token rotate" in refused.value.fix


def test_h65_what_was_planted_as_its_temporary_is_not_used(tmp_path: Path) -> None:
    """Neither a link nor a file that others may read becomes the token's file."""
    temporary = token_path().with_name(".token.tmp")
    temporary.parent.mkdir(parents=True)
    temporary.symlink_to(tmp_path / "elsewhere")
    first = open_token()
    assert not (tmp_path / "elsewhere").exists()
    temporary.write_text("")
    temporary.chmod(0o666)
    assert rotate_token() != first
    assert mode(token_path()) == 0o600


def test_a_home_that_may_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which variable names another."""
    monkeypatch.setenv("ONCEWARD_HOME", "/proc/onceward")
    with pytest.raises((NotWritable, StorageError)) as refused:
        open_token()
    assert "/proc/onceward" in refused.value.message


def test_h65_concurrent_first_starts_agree_on_one_token() -> None:
    """Processes that all find no token make one, and all use it."""
    script = (
        "import sys; from onceward.http.token_file import open_token; "
        "print(flush=True); sys.stdin.readline(); print(open_token())"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    for each in started:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    tokens = {each.communicate(timeout=300)[0].strip() for each in started}
    assert tokens == {read_token()}


@pytest.mark.parametrize(
    "point", [each for each in crash_points.POINTS if each.startswith("atomic.")]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_h65_a_kill_leaves_the_old_token_or_the_new_one(point: str, *, is_first: bool) -> None:
    """Never half a token, and never one that others may read."""
    before = None if is_first else open_token()

    def rotate() -> None:
        crash_points.arm(f"{point}:1:kill")
        rotate_token()

    _, status = os.waitpid(forked(rotate), 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    after = read_token()
    is_replaced = point in {"atomic.write.after_rename", "atomic.write.before_return"}
    assert (after != before) == is_replaced
    assert open_token() == (after or read_token())
    assert rotate_token() == open_token()
    assert mode(token_path()) == 0o600


@pytest.mark.usefixtures("second_user")
def test_h65_a_file_of_another_user_is_refused() -> None:
    """Its owner knows the token."""
    open_token()
    os.chown(token_path(), SECOND_UID, -1)
    with pytest.raises(StorageError, match=str(SECOND_UID)):
        open_token()
    assert rotate_token() == open_token()
