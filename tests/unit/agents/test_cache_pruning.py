"""Cache pruning: by age and by count, never what a run still needs, never what is not ours."""

import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onceward.agents import answer_cache as cache_module
from onceward.agents import artifact_bytes, artifacts
from onceward.agents.answer_cache import ENTRY_DAYS_MAX, AgentAnswer, AnswerCache
from onceward.system import ManualClock
from tests.unit.agents.test_answer_cache import KEY, OTHER, an_answer, name_of

DAY_SECONDS = 24 * 60 * 60


class Cached:
    """A cache under a clock that is moved by hand, beside a workspace with one file."""

    def __init__(self, directory: Path) -> None:
        self.workspace, self.directory = directory / "workspace", directory / "cache"
        self.workspace.mkdir()
        (self.workspace / "out.txt").write_text("done")
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.cache = AnswerCache(self.directory, clock=self.clock)

    def put(self, key: str, run: str = "", *, basis: str = "") -> AgentAnswer:
        answer = replace(an_answer(key, self.workspace), run=run, basis=basis)
        self.cache.put(answer, self.workspace)
        return answer

    def names(self) -> list[str]:
        return sorted(each.name for each in self.directory.iterdir())


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path)


def test_old_answers_are_pruned(cached: Cached) -> None:
    """With the bytes beside them, in memory and on disk; younger ones stay."""
    cached.put(KEY, basis="snapshot")
    cached.clock.advance(seconds=DAY_SECONDS)
    cached.put(OTHER, basis="snapshot")
    assert len(cached.names()) == 4
    cached.clock.advance(seconds=(ENTRY_DAYS_MAX - 0.5) * DAY_SECONDS)
    assert cached.cache.prune(()) == 1
    assert cached.names() == [name_of(OTHER), name_of(OTHER).replace(".json", ".zip")]
    assert cached.cache.get(KEY, cached.workspace) is None
    assert cached.cache.get(OTHER, cached.workspace) is not None


def test_too_many_answers_are_pruned(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first; those that an unfinished run names do not count, and stay."""
    monkeypatch.setattr(cache_module, "ENTRIES_MAX", 2)
    keys = [f"ik:{number:064x}" for number in range(5)]
    for key in keys:
        cached.put(key)
        cached.clock.advance(seconds=60)
    assert cached.cache.prune({keys[0]}) == 2
    assert cached.names() == [name_of(each) for each in (keys[0], *keys[3:])]


def test_what_an_unfinished_run_names_is_never_pruned(cached: Cached) -> None:
    """However old it is, of whatever run, and with its bytes."""
    cached.put(KEY, "run-1", basis="snapshot")
    cached.put(KEY, "run-2")
    cached.clock.advance(seconds=1000 * DAY_SECONDS)
    assert cached.cache.prune({KEY}) == 0
    assert len(cached.names()) == 3
    assert cached.cache.prune({OTHER}) == 2
    assert cached.names() == []


def test_only_files_of_the_cache_are_pruned(cached: Cached) -> None:
    """Files of other programs survive, also under a name such as ours."""
    archive = name_of("ik:" + "c" * 64).replace(".json", ".zip")
    foreign = {
        "notes.txt": b"mine",
        "a" * 64 + ".json": b"{}",
        name_of("ik:" + "d" * 64): b'{"schemaVersion": 1, "mine": true}',
        f".{name_of(KEY)}.tmp": b"torn",
        name_of("ik:" + "e" * 64).replace(".json", ".zip"): b"no archive",
        "nested": None,
    }
    cached.put(KEY, basis="snapshot")
    for name, content in foreign.items():
        if content is None:
            (cached.directory / name).mkdir()
        else:
            (cached.directory / name).write_bytes(content)
    with zipfile.ZipFile(cached.directory / archive, "w") as made:
        made.writestr("mine", "mine")
    cached.clock.advance(seconds=1000 * DAY_SECONDS)
    assert cached.cache.prune(()) == 1
    assert cached.names() == sorted([*foreign, archive])


def test_bytes_without_an_answer_are_pruned(cached: Cached) -> None:
    """A writer that dies between the bytes and the answer leaves no file for good."""
    cached.put(KEY, basis="snapshot")
    (cached.directory / name_of()).unlink()
    assert len(cached.names()) == 1
    assert cached.cache.prune(()) == 0
    assert cached.names() == []


def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Pruning comes before the first answer."""
    assert AnswerCache(tmp_path / "nothing").prune(()) == 0


def test_bytes_are_restored_with_their_rights(cached: Cached) -> None:
    """All files or, if one of them must not be overwritten, none."""
    script = cached.workspace / "bin" / "run.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    named = [artifacts.describe(cached.workspace, each) for each in ("bin/run.sh", "out.txt")]
    answer = replace(an_answer(), artifacts=named, basis="snapshot")
    cached.cache.put(answer, cached.workspace)
    script.unlink()
    script.parent.rmdir()
    (cached.workspace / "out.txt").write_text("by hand")
    assert not cached.cache.restore(answer, cached.workspace, ())
    assert not script.exists()
    assert cached.cache.restore(answer, cached.workspace, {"out.txt"})
    assert script.stat().st_mode & 0o777 == 0o755
    assert (cached.workspace / "out.txt").read_text() == "done"


def test_h72_a_persons_own_temporary_file_survives_a_restore(cached: Cached) -> None:
    """Restored bytes are first written in the cache's folder, not beside the person's files."""
    answer = cached.put(KEY, basis="snapshot")
    (cached.workspace / "out.txt").unlink()
    own = cached.workspace / ".out.txt.tmp"
    own.write_text("mine")
    assert cached.cache.restore(answer, cached.workspace, ())
    assert own.read_text() == "mine"
    assert (cached.workspace / "out.txt").read_text() == "done"


def test_bytes_are_not_restored_onto_another_file_system(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename cannot reach it, so the work is done again, and nothing is half restored."""
    answer = cached.put(KEY, basis="snapshot")
    (cached.workspace / "out.txt").unlink()
    monkeypatch.setattr(artifact_bytes, "_device", lambda path: path)
    assert not cached.cache.restore(answer, cached.workspace, ())
    assert [each.name for each in cached.workspace.iterdir()] == []


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_damaged_bytes_restore_nothing(cached: Cached, damage: bytes | None) -> None:
    """The archive is missing, or not the one that the answer names."""
    answer = cached.put(KEY, basis="snapshot")
    archive = cached.directory / name_of().replace(".json", ".zip")
    if damage is None:
        archive.unlink()
    else:
        archive.write_bytes(damage)
    (cached.workspace / "out.txt").unlink()
    assert not cached.cache.restore(answer, cached.workspace, ())
    assert not (cached.workspace / "out.txt").exists()


def test_no_link_leads_a_restored_file_elsewhere(cached: Cached, tmp_path: Path) -> None:
    """What took the place of a folder since is not followed."""
    (cached.workspace / "src").mkdir()
    (cached.workspace / "src" / "a.txt").write_text("a")
    named = [artifacts.describe(cached.workspace, "src/a.txt")]
    answer = replace(an_answer(), artifacts=named, basis="snapshot")
    cached.cache.put(answer, cached.workspace)
    (cached.workspace / "src" / "a.txt").unlink()
    (cached.workspace / "src").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (cached.workspace / "src").symlink_to(tmp_path / "elsewhere")
    assert not cached.cache.restore(answer, cached.workspace, ())
    assert list((tmp_path / "elsewhere").iterdir()) == []
