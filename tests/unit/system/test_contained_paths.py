"""Whether a path is inside a root is decided by where it really leads."""

import os
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import FileMissing, InvalidArgument
from onceward.system.safe_paths import RootedDirectory, locate_below


def test_a_sibling_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    """`/a/bc` is not inside `/a/b`."""
    for name in ("b", "bc", "b c", "b/inner"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    root = tmp_path / "b"
    assert locate_below(str(tmp_path / "bc"), [root]) is None
    assert locate_below(str(tmp_path / "bc" / "x"), [root]) is None
    assert locate_below(str(tmp_path / "b c"), [root]) is None
    assert locate_below(str(tmp_path), [root]) is None
    assert locate_below(str(root), [root]) == (root, PurePath())
    assert locate_below(f"{root}/", [root]) == (root, PurePath())
    assert locate_below(str(root / "inner"), [root]) == (root, PurePath("inner"))
    assert locate_below(str(root / "none" / "deeper"), [root]) == (root, PurePath("none/deeper"))
    assert locate_below(str(root / ".." / "bc"), [root]) is None
    assert locate_below(str(root / "inner"), []) is None
    assert locate_below(str(root / "inner"), [tmp_path / "bc", root]) == (root, PurePath("inner"))


def test_links_are_resolved_before_they_are_compared(tmp_path: Path) -> None:
    """What counts is where a path really leads, in both directions."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "run").mkdir(parents=True)
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (outside / "in").symlink_to(root / "run")
    (root / "dangling").symlink_to(outside / "none")
    assert locate_below(str(root / "out"), [root]) is None
    assert locate_below(str(root / "out" / "none"), [root]) is None
    assert locate_below(str(root / "dangling"), [root]) is None
    assert locate_below(str(outside / "in"), [root]) == (root, PurePath("run"))


def test_a_root_is_found_through_links_above_it_but_not_as_a_link(tmp_path: Path) -> None:
    """A home that is a link is fine; a root that was replaced by a link contains nothing."""
    (tmp_path / "real" / "root" / "run").mkdir(parents=True)
    (tmp_path / "outside" / "run").mkdir(parents=True)
    (tmp_path / "home").symlink_to(tmp_path / "real")
    root = tmp_path / "home" / "root"
    assert locate_below(str(root / "run"), [root]) == (tmp_path / "real" / "root", PurePath("run"))
    (tmp_path / "real" / "root").rename(tmp_path / "moved")
    (tmp_path / "real" / "root").symlink_to(tmp_path / "outside")
    assert locate_below(str(root / "run"), [root]) is None
    assert locate_below(str(tmp_path / "outside" / "run"), [root]) is None


def test_dots_do_not_reveal_what_lies_outside(tmp_path: Path) -> None:
    """The way through a directory outside gives the same answer, whatever that directory is."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    answers = {
        locate_below(f"{tmp_path}/{name}/../root", [root]) for name in ("none", "there", "link")
    }
    assert answers == {(root, PurePath())}


def test_homes_relative_paths_and_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/` is the home, other paths start where we are, and two slashes are one."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    expected = (tmp_path, PurePath("run"))
    assert locate_below("~/run", [tmp_path]) == expected
    assert locate_below("~", [tmp_path]) == (tmp_path, PurePath())
    assert locate_below("~root", [tmp_path]) == (tmp_path, PurePath("~root"))
    assert locate_below("run", [tmp_path]) == expected
    assert locate_below("./run/../run", [tmp_path]) == expected
    assert locate_below(f"//{tmp_path}//run", [tmp_path]) == expected
    assert locate_below("..", [tmp_path]) is None


def test_everything_is_inside_the_root_of_all(tmp_path: Path) -> None:
    """`/` may be an allowed root."""
    assert locate_below(str(tmp_path), [Path("/")]) == (Path("/"), tmp_path.relative_to("/"))
    assert locate_below("/", [Path("/")]) == (Path("/"), PurePath())
    with RootedDirectory.open(Path("/"), tmp_path.relative_to("/")) as opened:
        assert opened.entries() == []


def test_a_directory_that_is_gone_contains_nothing_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path from a removed working directory is FileMissing."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileMissing, match="working directory"):
        locate_below("run", [tmp_path])


@pytest.mark.parametrize("path", ["", "a\0b", "/\0", "a\ud800", "\udcff", "x" * 4097, "é" * 2049])
def test_what_cannot_be_a_path_names_the_field(path: str, tmp_path: Path) -> None:
    """An impossible path is the caller's mistake, whatever the roots."""
    for roots in ([], [tmp_path]):
        with pytest.raises(InvalidArgument, match="^path: it ") as caught:
            locate_below(path, roots)
        assert caught.value.context["field"] == "path"


def test_a_link_to_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Where a link leads must be something that a record can hold."""
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(odd).mkdir()
    (tmp_path / "link").symlink_to(odd)
    with pytest.raises(InvalidArgument, match="leads to a name that is not Unicode text"):
        locate_below(str(tmp_path / "link"), [tmp_path])


def test_long_names_and_loops_are_paths_like_any_other(tmp_path: Path) -> None:
    """A component too long for the kernel and a link to itself neither fail nor escape."""
    (tmp_path / "loop").symlink_to("loop")
    assert locate_below(str(tmp_path / ("x" * 300)), [tmp_path]) is not None
    locate_below(str(tmp_path / "loop" / "x"), [tmp_path])
    assert locate_below(str(tmp_path.parent / ("x" * 300)), [tmp_path]) is None


NAMES = st.sampled_from(["a", "ab", "b", ".", "..", "", "up", "out", "a b", "~", "%2e%2e"])


@given(parts=st.lists(NAMES, max_size=8), lead=st.sampled_from(["", "/", "//"]))
def test_what_is_contained_is_really_inside(
    parts: list[str], lead: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the spelling, a path said to be inside has its real place below the root."""
    base = tmp_path_factory.getbasetemp() / "contained"
    root = base / "a"
    if not base.exists():
        for name in ("a/a/b", "a/ab/b", "ab/b", "b/a"):
            (base / name).mkdir(parents=True)
        (root / "up").symlink_to(base)
        (root / "out").symlink_to(base / "ab")
        (base / "out").symlink_to(root / "a")
    path = f"{lead}{base}/" + "/".join(parts)
    found = locate_below(path, [root])
    real = Path(os.path.abspath(path.replace("//", "/", 1))).resolve()  # noqa: PTH100 - by the letter
    assert (found is not None) == real.is_relative_to(root)
    if found is not None:
        assert found[0] == root
        assert ".." not in found[1].parts
        assert root / found[1] == real
