"""Trees: which files a command has changed since it was first begun."""

from pathlib import Path

from onceward.agents.changed_files import BASELINES_MAX, BaselineStore, difference, read_tree


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
    first = BaselineStore(kept).get_or_record(key(1), tmp_path)
    assert first == read_tree(tmp_path)
    (tmp_path / "a").write_text("2")
    assert BaselineStore(kept).get_or_record(key(1), tmp_path) == first
    assert BaselineStore(kept).get_or_record(key(2), tmp_path) == read_tree(tmp_path) != first
    assert BaselineStore(None).get_or_record(key(1), tmp_path) == read_tree(tmp_path)


def test_a_damaged_baseline_is_recorded_again(tmp_path: Path) -> None:
    """What cannot be read says nothing."""
    kept = tmp_path / "state" / "begun"
    for damage in (b"", b"[1]", b'{"a": 1}', b"\xff"):
        BaselineStore(kept).get_or_record(key(1), tmp_path)
        (file,) = kept.glob("*.json")
        file.write_bytes(damage)
        assert BaselineStore(kept).get_or_record(key(1), tmp_path) == read_tree(tmp_path)
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
    first = BaselineStore(kept, run="run-1").get_or_record(key(1), tmp_path)
    (tmp_path / "a").write_text("2")
    assert (
        BaselineStore(kept, run="run-2").get_or_record(key(1), tmp_path)
        == read_tree(tmp_path)
        != first
    )
    assert BaselineStore(kept, run="run-1").get_or_record(key(1), tmp_path) == first


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
