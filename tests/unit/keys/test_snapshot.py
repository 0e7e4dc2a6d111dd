"""Snapshots: content alone decides the id."""

import hashlib
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from onceward.errors import FileMissing, StorageError
from onceward.keys import canonical_json, snapshot
from onceward.keys.snapshot import DigestCache
from onceward.system import ManualClock


def make(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def test_id_follows_the_written_rule(tmp_path: Path) -> None:
    """Other programs can recompute the id from paths, hashes and sizes."""
    make(tmp_path, {"b.txt": "two", "a/c.txt": "one"})
    rows = [
        {"path": "a/c.txt", "sha256": hashlib.sha256(b"one").hexdigest(), "size": 3},
        {"path": "b.txt", "sha256": hashlib.sha256(b"two").hexdigest(), "size": 3},
    ]
    expected = "snap-" + hashlib.sha256(canonical_json(rows)).hexdigest()[:12]
    assert snapshot(tmp_path).id == expected
    assert re.fullmatch(r"snap-[0-9a-f]{12}", expected)


def test_times_and_modes_do_not_matter_but_content_and_names_do(tmp_path: Path) -> None:
    """Touching a file keeps the id; changing a byte or a name does not."""
    make(tmp_path, {"a.txt": "one"})
    first = snapshot(tmp_path).id
    os.utime(tmp_path / "a.txt", (1, 1))
    (tmp_path / "a.txt").chmod(0o755)
    assert snapshot(tmp_path).id == first
    (tmp_path / "a.txt").write_text("onf")
    second = snapshot(tmp_path).id
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    assert len({first, second, snapshot(tmp_path).id}) == 3


def test_hidden_files_and_our_own_folders_are_left_out(tmp_path: Path) -> None:
    """Without git, hidden files do not count; what Onceward writes never does."""
    make(tmp_path, {"src/a.py": "x", "src/state/kept.py": "y"})
    first = snapshot(tmp_path)
    make(tmp_path, {".env": "secret", "src/.cache/z": "z"})
    for own in ("state", "events", "receipts", "snapshots", "logs", "transcripts"):
        make(tmp_path, {f"{own}/x.json": own})
    assert snapshot(tmp_path) == first
    assert [file.path for file in first.files] == ["src/a.py", "src/state/kept.py"]


def test_git_decides_in_a_checkout(tmp_path: Path) -> None:
    """Tracked and untracked files count, ignored and deleted ones do not, hidden ones do."""
    git(tmp_path, "init", "-q")
    make(
        tmp_path,
        {".gitignore": "*.log\n", "a.py": "a", "gone.py": "g", "x.log": "l", "logs/y": "y"},
    )
    git(tmp_path, "add", "-A")
    make(tmp_path, {"new.py": "n", "ümläut.py": "u"})
    (tmp_path / "gone.py").unlink()
    names = [file.path for file in snapshot(tmp_path).files]
    assert names == [".gitignore", "a.py", "new.py", "ümläut.py"]


@pytest.mark.parametrize("pattern", ["work/", "*", "work/*", "*\n!/other"])
def test_visible_files_count_in_a_directory_that_git_ignores(pattern: str, tmp_path: Path) -> None:
    """Git lists no file there; an empty snapshot would be the same for any content."""
    git(tmp_path, "init", "-q")
    make(tmp_path, {".gitignore": f"{pattern}\n", "work/src/a.py": "a", "work/.env": "secret"})
    first = snapshot(tmp_path / "work")
    assert [file.path for file in first.files] == ["src/a.py"]
    make(tmp_path, {"work/src/a.py": "b"})
    assert snapshot(tmp_path / "work").id != first.id


def test_visible_files_count_beside_a_placeholder_in_an_ignored_directory(tmp_path: Path) -> None:
    """Git lists `.gitkeep`, which is no reason to leave all else out."""
    git(tmp_path, "init", "-q")
    make(
        tmp_path, {".gitignore": "work/*\n!work/.gitkeep\n", "work/.gitkeep": "", "work/a.py": "a"}
    )
    assert [file.path for file in snapshot(tmp_path / "work").files] == [".gitkeep", "a.py"]


def test_git_decides_in_a_checkout_without_files_that_count(tmp_path: Path) -> None:
    """Ignored files are none of the work, also before the first other file."""
    git(tmp_path, "init", "-q")
    make(tmp_path, {".git/info/exclude": "build/\n", "build/a.o": "a", "onceward.json": "{}"})
    assert snapshot(tmp_path).files == ()
    make(tmp_path, {"new.py": "n"})
    assert [file.path for file in snapshot(tmp_path).files] == ["new.py"]


def test_a_link_is_not_a_file_with_the_same_text(tmp_path: Path) -> None:
    """Its digest covers more than its target's name, so that a swap is a change."""
    (tmp_path / "conf").write_text("/etc/passwd")
    first = snapshot(tmp_path)
    (tmp_path / "conf").unlink()
    (tmp_path / "conf").symlink_to("/etc/passwd")
    (swapped,) = snapshot(tmp_path).files
    assert snapshot(tmp_path).id != first.id
    assert swapped.sha256 == hashlib.sha256(b"link\0/etc/passwd").hexdigest()
    assert swapped.size == len("/etc/passwd")


def test_links_count_by_target_and_are_not_followed(tmp_path: Path) -> None:
    """A link is its target's name; the content of the target is not read."""
    outside = tmp_path / "outside"
    make(outside, {"secret.txt": "s"})
    root = tmp_path / "root"
    make(root, {"a.txt": "a"})
    (root / "link").symlink_to("a.txt")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "pipe")
    names = [file.path for file in snapshot(root).files]
    assert names == ["a.txt", "folder", "link"]


def test_a_name_that_is_not_utf_8_counts(tmp_path: Path) -> None:
    """Any file name the system allows has a place in the snapshot."""
    (tmp_path / os.fsdecode(b"bad\xff.txt")).write_text("x")
    assert [file.path for file in snapshot(tmp_path).files] == ["bad\\xff.txt"]


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    """There is no snapshot of nothing."""
    with pytest.raises(FileMissing, match="is not a directory"):
        snapshot(tmp_path / "nowhere")


def test_a_checkout_that_git_cannot_list_is_an_error(tmp_path: Path) -> None:
    """A guess in place of git's answer would give another id on another machine."""
    make(tmp_path, {".git": "gitdir: /nowhere\n", "a.py": "a"})
    with pytest.raises(StorageError, match="git cannot list"):
        snapshot(tmp_path)


def test_known_digests_spare_reading_and_change_nothing(tmp_path: Path) -> None:
    """Unchanged files are not read again; changed ones are, by content, whatever their size."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"content {number}")
        os.utime(tmp_path / f"{number}.txt", (1, 1))
    clock = ManualClock(datetime.now(UTC) + timedelta(hours=1))
    digests = DigestCache()
    first = snapshot(tmp_path, digests=digests, clock=clock)
    assert first == snapshot(tmp_path)
    again = DigestCache(digests.to_json())
    assert len(digests.to_json()) == 5
    (tmp_path / "3.txt").write_text("Content 3")
    (tmp_path / "4.txt").unlink()
    changed = snapshot(tmp_path, digests=again, clock=clock)
    assert changed == snapshot(tmp_path)
    assert changed.id != first.id
    assert sorted(again.to_json()) == ["0.txt", "1.txt", "2.txt", "3.txt"]


def test_a_file_that_was_just_touched_is_read_every_time(tmp_path: Path) -> None:
    """A second write within one tick of the clock would leave no trace."""
    (tmp_path / "fresh.txt").write_text("a")
    digests = DigestCache()
    snapshot(tmp_path, digests=digests)
    assert digests.to_json() == {}


def test_broken_digests_are_left_out() -> None:
    """An edited cache is no reason to fail."""
    assert DigestCache({"a": "", "b": "1 2 3 digest", "c": "1 2 3 x digest"}).to_json() == {}
