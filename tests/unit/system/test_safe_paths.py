"""Rooted files: nothing is read outside the root, whatever links say and whenever they change."""

import os
import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePath
from typing import Any

import pytest

from onceward.errors import FileMissing, NotWritable, StorageError, TooLarge, WrongPath
from onceward.journal import atomic_file
from onceward.system import safe_paths
from onceward.system.safe_paths import RootedDirectory, locate_below

SECRET = b"the secret that lies outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_bytes(SECRET)
    return outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "run" / "deep").mkdir(parents=True)
    (root / "run" / "file.txt").write_bytes(b"ours")
    (root / "run" / "deep" / "file.txt").write_bytes(b"deep ours")
    return root


@pytest.fixture
def run(root: Path) -> Iterator[RootedDirectory]:
    with RootedDirectory.open(root, "run") as opened:
        yield opened


def test_files_below_the_directory_are_read(root: Path, run: RootedDirectory) -> None:
    """Names and ways down through directories lead to their content."""
    assert run.read("file.txt", bytes_max=4) == b"ours"
    assert run.read("deep/file.txt", bytes_max=100) == b"deep ours"
    with RootedDirectory.open(root) as top, RootedDirectory.open(root, PurePath()) as same:
        assert top.read("run/deep/file.txt", bytes_max=100) == b"deep ours"
        assert same.read("run/file.txt", bytes_max=100) == b"ours"
    with RootedDirectory.open(root, PurePath("run/deep")) as deep:
        assert deep.read("file.txt", bytes_max=100) == b"deep ours"


def test_an_open_file_has_the_size_time_and_identity_of_its_path(
    root: Path, run: RootedDirectory
) -> None:
    """Size, time and identity are those of the file; any part of it can be read."""
    path = root / "run" / "file.txt"
    with run.open_file("file.txt") as file:
        found = path.stat()
        assert file.stat == (found.st_dev, found.st_ino, 4, found.st_mtime_ns)
        assert (file.stat.inode, file.stat.size) == (found.st_ino, 4)
        assert file.read(1, 2) == b"ur"
        assert file.read(3, 100) == b"s"
        assert file.read(4, 100) == b""


def test_a_closed_file_reads_nothing(root: Path, run: RootedDirectory) -> None:
    """After closing, a number that has become another file's is never read from."""
    file = run.open_file("file.txt")
    file.close()
    with (root / "run" / "file.txt").open("rb"), pytest.raises(StorageError):
        file.read(0, 4)
    file.close()


def test_descriptors_are_given_back(root: Path, outside: Path) -> None:
    """Neither success nor any refusal leaves a descriptor open."""
    (root / "run" / "link").symlink_to(outside)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for relative in ("run", "run/deep", "run/link", "run/none", "run/file.txt", "../outside"):
        try:
            with RootedDirectory.open(root, relative) as opened:
                opened.entries()
                for name in ("file.txt", "deep/file.txt", "deep", "link/file.txt", "none/x"):
                    try:
                        opened.read(name, bytes_max=1000)
                        opened.read(name, bytes_max=1)
                    except (StorageError, TooLarge):
                        continue
        except StorageError:
            continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before


HOSTILE = [
    *("", ".", "..", "/", "//", "./file.txt", "../file.txt", "deep/../file.txt", "deep//file.txt"),
    *("/etc/passwd", "file.txt/", "deep/", "/file.txt", "deep/.", "deep/./file.txt", "../run"),
    *("file.txt\0", "\0", "deep/\0/x", "a" * 300, "deep/" + "a" * 5000, "a\ud800", "x/" * 3000),
    *("..\\file.txt", "%2e%2e/outside/file.txt", "~/x", "file.txt/x", "deep/file.txt/more"),
]


def test_names_that_are_no_way_down_are_refused(run: RootedDirectory) -> None:
    """Traversal, absolute paths, NUL and endless names are refused with a message of ours."""
    for relative in HOSTILE:
        with pytest.raises((WrongPath, FileMissing)) as caught:
            run.open_file(relative)
        assert len(caught.value.message) < 400
        caught.value.message.encode()
        with pytest.raises((WrongPath, FileMissing)):
            run.read(relative, bytes_max=1000)


@pytest.mark.parametrize("relative", ["..", "../outside", "/", "", "run/..", "run/../run", "a\0"])
def test_directories_are_only_opened_below_the_root(root: Path, relative: str) -> None:
    """No way leads from the root to its parent, its sibling or anywhere absolute."""
    for spelled in (relative, PurePath(relative) if relative else ""):
        with pytest.raises(WrongPath):
            RootedDirectory.open(root, spelled)


def test_a_backslash_and_a_newline_are_ordinary(root: Path, run: RootedDirectory) -> None:
    """What has no meaning to the kernel has none here."""
    for name in ("..\\..\\x", "two\nlines", "%2e%2e", "~"):
        (root / "run" / name).write_bytes(name.encode())
        assert run.read(name, bytes_max=100) == name.encode()


def test_links_are_not_followed(root: Path, outside: Path, run: RootedDirectory) -> None:
    """A link, inside or outside, to a file or a directory, at the end or on the way, is refused."""
    here = root / "run"
    (here / "secret.txt").symlink_to(outside / "file.txt")
    (here / "inner.txt").symlink_to("file.txt")
    (here / "door").symlink_to(outside)
    (here / "loop").symlink_to("loop")
    (root / "other").symlink_to(outside)
    for name in ("secret.txt", "inner.txt", "door/file.txt", "loop", "loop/x", "door"):
        with pytest.raises(WrongPath):
            run.read(name, bytes_max=1000)
    for relative in ("other", "run/door", "run/loop"):
        with pytest.raises(WrongPath):
            RootedDirectory.open(root, relative)


def test_a_root_replaced_by_a_link_is_refused(root: Path, outside: Path) -> None:
    """Swapping the root itself for a link gains an attacker nothing either."""
    root.rename(root.with_name("moved"))
    root.symlink_to(outside)
    with pytest.raises(WrongPath):
        RootedDirectory.open(root)


def test_what_is_no_regular_file_is_refused_without_waiting(
    root: Path, run: RootedDirectory
) -> None:
    """Pipes, sockets and directories are refused at once, not waited for."""
    os.mkfifo(root / "run" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        with RootedDirectory.open(root, "run") as short:
            listener.bind(str(short.path() / "socket"))
        for name in ("pipe", "socket", "deep"):
            with pytest.raises(WrongPath):
                run.open_file(name)


def test_what_is_missing_is_missing(root: Path, run: RootedDirectory) -> None:
    """A missing file, directory or root is FileMissing and named."""
    for name in ("none.txt", "none/file.txt"):
        with pytest.raises(FileMissing, match="none"):
            run.open_file(name)
    for missing in (root / "none", root / "none" / "deeper"):
        with pytest.raises(FileMissing, match="none"):
            RootedDirectory.open(missing)
    with pytest.raises(FileMissing, match="none"):
        RootedDirectory.open(root, "run/none")


def test_a_forbidden_file_is_named(run: RootedDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system does not let us read is said to be that."""

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NotWritable, match=r"file\.txt: Permission denied"):
        run.open_file("file.txt")


def test_a_large_file_is_not_read(root: Path, run: RootedDirectory) -> None:
    """More than asked for is refused, also when the size did not tell."""
    big = root / "run" / "big"
    big.write_bytes(b"x" * 3_000_000)
    assert len(run.read("big", bytes_max=3_000_000)) == 3_000_000
    with pytest.raises(TooLarge, match="larger than 2999999 bytes"):
        run.read("big", bytes_max=2_999_999)
    # The kernel reports no size for these, but they do have content.
    with RootedDirectory.open(Path("/proc/sys/kernel")) as kernel:
        assert kernel.read("ostype", bytes_max=100) == b"Linux\n"
        with pytest.raises(TooLarge):
            kernel.read("ostype", bytes_max=5)
    assert run.read("file.txt", bytes_max=4) == b"ours"


def test_entries_are_the_regular_files(root: Path, outside: Path, run: RootedDirectory) -> None:
    """Links, directories and pipes are not listed; the rest is, by name."""
    here = root / "run"
    (here / "a.txt").write_bytes(b"12")
    (here / "link").symlink_to(outside / "file.txt")
    os.mkfifo(here / "pipe")
    for _ in range(2):
        found = run.entries()
        assert [(each.name, each.size) for each in found] == [("a.txt", 2), ("file.txt", 4)]
        assert found[0].mtime_ns == (here / "a.txt").stat().st_mtime_ns


def test_an_endless_directory_is_not_listed(
    run: RootedDirectory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a limit, listing is refused."""
    monkeypatch.setattr(safe_paths, "ENTRIES_MAX", 3)
    for number in range(2):
        (root / "run" / f"{number}").touch()
    assert len(run.entries()) == 3
    (root / "run" / "one more").touch()
    with pytest.raises(TooLarge, match="more than 3 files"):
        run.entries()


def test_its_path_writes_into_this_very_directory(root: Path, outside: Path) -> None:
    """A file written below its path lands there, though its name now leads elsewhere."""
    with RootedDirectory.open(root, "run") as opened:
        (root / "run").rename(root / "moved")
        (root / "run").symlink_to(outside)
        atomic_file.write(opened.path() / "export.json", b"{}")
    assert (root / "moved" / "export.json").read_bytes() == b"{}"
    assert [each.name for each in outside.iterdir()] == ["file.txt"]


# --- a link is swapped in between ----------------------------------------------------------------


def swapping(place: Path, spare: Path, link_to: Path, stop: threading.Event) -> None:
    """Let `place` be the real thing, then a link to `link_to`, and so on, each in one step."""
    link = spare.with_name("planted")
    aside = spare.with_name("aside")
    while not stop.is_set():
        link.symlink_to(link_to)
        place.rename(aside)
        link.rename(place)
        place.unlink()
        aside.rename(place)


@pytest.mark.parametrize("place", ["run/file.txt", "run/deep", "run", "."])
def test_h12_a_link_swapped_in_at_the_last_moment_is_not_followed(
    root: Path, outside: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap comes right before the kernel is asked, after whatever was checked."""
    evil = outside / "root"
    (evil / "run" / "deep").mkdir(parents=True)
    for name in ("run/file.txt", "run/deep/file.txt"):
        (evil / name).write_bytes(SECRET)
    real_open = os.open
    swapped: list[object] = []

    def open_after_swap(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        if not swapped and Path(path).name == (root / place).name:
            (root / place).rename(outside / "aside")
            (root / place).symlink_to(evil / place)
            swapped.append(path)
        return real_open(path, flags, mode, **more)

    found = locate_below(str(root / "run"), [root])
    assert found is not None
    monkeypatch.setattr(os, "open", open_after_swap)
    with pytest.raises(WrongPath), RootedDirectory.open(*found) as opened:
        opened.read("deep/file.txt" if place == "run/deep" else "file.txt", bytes_max=1000)
    assert swapped


@pytest.mark.parametrize("what", ["file", "directory", "root"])
def test_h12_a_link_swapped_between_check_and_open_reads_nothing_outside(
    root: Path, outside: Path, what: str, prove: bool
) -> None:
    """Many reads while a link comes and goes: ours, or a refusal, never the secret."""
    place, target = {
        "file": (root / "run" / "file.txt", outside / "file.txt"),
        "directory": (root / "run", outside),
        "root": (root, outside.parent / "lookalike"),
    }[what]
    (outside.parent / "lookalike" / "run").mkdir(parents=True)
    (outside.parent / "lookalike" / "run" / "file.txt").write_bytes(SECRET)
    stop = threading.Event()
    swapper = threading.Thread(
        target=swapping, args=[place, outside.parent / "spare", target, stop]
    )
    swapper.start()
    seen: dict[str, int] = {"ours": 0, "refused": 0}
    try:
        for attempt in count():
            try:
                found = locate_below(str(root / "run"), [root])
                if found is None:
                    seen["refused"] += 1
                    continue
                with RootedDirectory.open(*found) as opened:
                    assert opened.read("file.txt", bytes_max=1000) == b"ours"
                    seen["ours"] += 1
            except StorageError:
                seen["refused"] += 1
            if attempt >= (100_000 if prove else 500) and all(seen.values()):
                break
    finally:
        stop.set()
        swapper.join()
