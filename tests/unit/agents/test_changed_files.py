"""Trees: which files a command has changed since it was first begun."""

from dataclasses import replace
from pathlib import Path

from onceward.agents import artifacts
from onceward.agents.changed_files import BASELINES_MAX, BaselineStore, difference, read_tree
from tests.unit.agents.test_answer_cache import an_answer


def key(number: int) -> str:
    return f"ik:{number:064x}"


def test_a_difference_names_what_changed() -> None:
    """New and changed files together, deleted ones apart."""
    found = difference({"a": "1", "b": "1", "c": "1"}, {"d": "1", "a": "2", "b": "1"})
    assert (found.changed, found.deleted) == (("a", "d"), ("c",))
    assert found
    assert not difference({"a": "1"}, {"a": "1"})


def test_the_first_beginning_counts(tmp_path: Path) -> None:
    """Also for the next process, and for other keys not."""
    (tmp_path / "a").write_text("1")
    kept = tmp_path / "state" / "begun"
    first = BaselineStore(kept).get_or_record(key(1), tmp_path).tree
    assert first == read_tree(tmp_path)
    (tmp_path / "a").write_text("2")
    assert BaselineStore(kept).get_or_record(key(1), tmp_path).tree == first
    assert BaselineStore(kept).get_or_record(key(2), tmp_path).tree == read_tree(tmp_path) != first
    assert BaselineStore(None).get_or_record(key(1), tmp_path).tree == read_tree(tmp_path)


def test_a_damaged_baseline_is_recorded_again(tmp_path: Path) -> None:
    """What cannot be read says nothing."""
    kept = tmp_path / "state" / "begun"
    for damage in (b"", b"[1]", b'{"a": 1}', b"\xff"):
        BaselineStore(kept).get_or_record(key(1), tmp_path)
        (file,) = kept.glob("*.json")
        file.write_bytes(damage)
        assert BaselineStore(kept).get_or_record(key(1), tmp_path).tree == read_tree(tmp_path)
        assert len(list(kept.iterdir())) == 1


def test_only_the_last_beginnings_are_kept(tmp_path: Path) -> None:
    """A workspace that is used for years does not fill up with them."""
    kept = tmp_path / "state" / "begun"
    for number in range(BASELINES_MAX + 5):
        BaselineStore(kept).get_or_record(key(number), tmp_path)
    names = sorted(each.name for each in kept.glob("*.json"))
    assert len(names) == BASELINES_MAX
    assert names[-1][9:73] == key(BASELINES_MAX + 4)[3:]


def test_each_run_has_its_own_beginning(tmp_path: Path) -> None:
    """The same key in a later run begins with the tree of that run."""
    kept = tmp_path / "state" / "begun"
    (tmp_path / "a").write_text("1")
    first = BaselineStore(kept, run="run-1").get_or_record(key(1), tmp_path).tree
    (tmp_path / "a").write_text("2")
    assert (
        BaselineStore(kept, run="run-2").get_or_record(key(1), tmp_path).tree
        == read_tree(tmp_path)
        != first
    )
    assert BaselineStore(kept, run="run-1").get_or_record(key(1), tmp_path).tree == first


def test_only_own_beginnings_are_removed(tmp_path: Path) -> None:
    """Files of other programs in the folder survive, whatever their names begin with."""
    kept = tmp_path / "state" / "begun"
    kept.mkdir(parents=True)
    foreign = [kept / "00000000-notes.json", kept / f"00000001-{'0' * 64}.json"]
    for each in foreign:
        each.write_text("mine")
    for number in range(BASELINES_MAX + 5):
        BaselineStore(kept).get_or_record(key(number), tmp_path)
    assert [each.read_text() for each in foreign] == ["mine", "mine"]


def test_h71_a_redo_names_what_is_left_of_the_work_before_it(tmp_path: Path) -> None:
    """Its unchanged files and deletions; only what the redo itself changes is a change."""
    kept = tmp_path / "state" / "begun"
    for name in ("gone.txt", "later.txt"):
        (tmp_path / name).write_text("old")
    BaselineStore(kept).get_or_record(key(1), tmp_path)
    for name in ("lost.txt", "same.txt", "edited.txt"):
        (tmp_path / name).write_text("built")
    (tmp_path / "gone.txt").unlink()
    named = [artifacts.describe(tmp_path, f"{name}.txt") for name in ("edited", "lost", "same")]
    done = replace(an_answer(key(1)), artifacts=named, payload={"deleted": ["gone.txt"]})
    (tmp_path / "lost.txt").unlink()
    for name in ("edited.txt", "later.txt"):
        (tmp_path / name).write_text("by the next command")
    BaselineStore(kept).record_redo(key(1), tmp_path, done)
    before = BaselineStore(kept).get_or_record(key(1), tmp_path)
    assert not before.is_changed(read_tree(tmp_path))
    assert before.changes(read_tree(tmp_path)).changed == ("same.txt",)
    (tmp_path / "lost.txt").write_text("built")
    assert before.is_changed(read_tree(tmp_path))
    changes = before.changes(read_tree(tmp_path))
    assert changes.changed == ("lost.txt", "same.txt")
    assert changes.deleted == ("gone.txt",)


def test_the_latest_begin_of_a_redo_stays_among_the_last(tmp_path: Path) -> None:
    """However long ago its first attempt began."""
    kept = tmp_path / "state" / "begun"
    for number in range(BASELINES_MAX):
        BaselineStore(kept).get_or_record(key(number), tmp_path)
    (tmp_path / "a").write_text("1")
    BaselineStore(kept).record_redo(key(0), tmp_path, an_answer(key(0)))
    (tmp_path / "a").write_text("2")
    found = BaselineStore(kept).get_or_record(key(0), tmp_path).tree
    (tmp_path / "a").write_text("1")
    assert found == read_tree(tmp_path)
    assert len(list(kept.iterdir())) == BASELINES_MAX
