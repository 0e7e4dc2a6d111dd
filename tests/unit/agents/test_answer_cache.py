"""Cache: an answer is kept once everything it names is on disk, and counts while that is so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from onceward.agents import answer_cache as cache_module
from onceward.agents import artifacts
from onceward.agents.answer_cache import AgentAnswer, AnswerCache, run_digest
from onceward.errors import InvalidArgument
from onceward.system import Files, OpenFile, SystemFiles, crash_points
from onceward.testing import Acks, CrashFiles, run_with_crash_at_every_step

KEY = "ik:" + "a" * 64
OTHER = "ik:" + "b" * 64


def name_of(key: str = KEY, run: str = "") -> str:
    return f"{key[3:]}-{run_digest(run)}.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "out.txt").write_text("done")
    return workspace


@pytest.fixture
def cache(tmp_path: Path) -> AnswerCache:
    return AnswerCache(tmp_path / "cache")


def an_answer(
    key: str = KEY, workspace: Path | None = None, snapshot_id: str = "snap-1"
) -> AgentAnswer:
    named = [artifacts.describe(workspace, "out.txt")] if workspace else []
    return AgentAnswer(
        key=key,
        snapshot_id=snapshot_id,
        event="builder.completed",
        status=None,
        payload={"tests": {"status": "pass"}, "text": "grüße"},
        artifacts=named,
    )


def test_an_answer_outlives_its_agent(cache: AnswerCache, workspace: Path, tmp_path: Path) -> None:
    """What was kept is found in memory, and by the next process on disk, the same."""
    answer = an_answer(workspace=workspace)
    cache.put(answer, workspace)
    assert cache.get(KEY, workspace) == answer
    assert AnswerCache(tmp_path / "cache").get(KEY, workspace) == answer
    assert cache.get(OTHER, workspace) is None


def test_an_answer_counts_for_its_run_only(
    cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """Another run may be about other files, though its key is the same: it gets no answer."""
    answer = replace(an_answer(), run="run-1")
    cache.put(answer, workspace)
    for each in (cache, AnswerCache(tmp_path / "cache")):
        assert each.get(KEY, workspace, run="run-1") == answer
        assert each.get(KEY, workspace, run="run-2") is None
        assert each.get(KEY, workspace) is None
    cache.put(replace(answer, run="run-2"), workspace)
    # Each has its own: a run that is resumed later finds what it was answered.
    for run in ("run-1", "run-2"):
        assert cache.get(KEY, workspace, run=run) == replace(answer, run=run)


@pytest.mark.parametrize("lives", [1, 2])
def test_an_answer_counts_only_while_its_artifacts_match(
    lives: int, cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """A file that was changed or deleted makes the work undone, in memory and on disk."""
    cache.put(an_answer(workspace=workspace), workspace)
    asked = cache if lives == 1 else AnswerCache(tmp_path / "cache")
    (workspace / "out.txt").write_text("DONE")
    assert asked.get(KEY, workspace) is None
    (workspace / "out.txt").unlink()
    assert asked.get(KEY, workspace) is None
    (workspace / "out.txt").write_text("done")
    assert asked.get(KEY, workspace) is not None


def test_failures_are_not_kept(cache: AnswerCache, workspace: Path) -> None:
    """An error or tests that fail unexplained leave the key free."""
    failing = {"tests": {"status": "fail"}}
    error = {"code": "X", "message": "m", "retryable": True}
    cache.put(replace(an_answer(), payload=failing), workspace)
    cache.put(replace(an_answer(), event="error", payload=error), workspace)
    assert cache.get(KEY, workspace) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schemaVersion":1}',
        b'{"schemaVersion":2}',
        b'{"schemaVersion":2,"key":1}',
        b'{"schemaVersion":2,"kept_at":7,"archive":null}',
        b"\xff",
        b" " * 2_000_000,
    ],
)
def test_a_damaged_file_is_no_answer(
    content: bytes, cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """What cannot be read is done again, and then replaced."""
    file = tmp_path / "cache" / name_of()
    file.parent.mkdir()
    file.write_bytes(content)
    assert cache.get(KEY, workspace) is None
    cache.put(an_answer(), workspace)
    assert AnswerCache(tmp_path / "cache").get(KEY, workspace) == an_answer()


def test_a_file_under_the_name_of_another_key_is_no_answer(
    cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """The key inside the file decides, not the file's name."""
    cache.put(an_answer(), workspace)
    directory = tmp_path / "cache"
    (directory / name_of()).rename(directory / name_of(OTHER))
    assert AnswerCache(directory).get(OTHER, workspace) is None
    assert AnswerCache(directory).prune(()) == 0


@pytest.mark.parametrize(
    "change",
    [{"artifacts": [{"path": "x"}]}, {"payload": 1}, {"event": 1}, {"run": 1}, {"kept_at": "?"}],
)
def test_a_file_of_another_shape_is_no_answer(
    change: dict[str, object], cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """JSON that is no answer of ours is done again."""
    cache.put(an_answer(), workspace)
    file = tmp_path / "cache" / name_of()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert AnswerCache(tmp_path / "cache").get(KEY, workspace) is None


@pytest.mark.parametrize("key", ["", "ik:", "ik:" + "a" * 63, "ik:../../../etc/passwd", "a" * 64])
def test_only_keys_are_keys(key: str, cache: AnswerCache, workspace: Path) -> None:
    """What is no key leads to no file."""
    with pytest.raises(InvalidArgument):
        cache.get(key, workspace)


def test_memory_is_bounded(
    cache: AnswerCache, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers used last are in memory, and the others are still on disk."""
    monkeypatch.setattr(cache_module, "ENTRIES_IN_MEMORY_MAX", 2)
    keys = [f"ik:{number:064x}" for number in range(4)]
    for key in keys:
        cache.put(an_answer(key), workspace)
    assert [key for key, _ in cache._known] == keys[2:]
    assert cache.get(keys[0], workspace) == an_answer(keys[0])


def test_an_answer_is_kept_after_what_it_names(workspace: Path, tmp_path: Path) -> None:
    """Artifacts and their names are synced before the answer's file is even begun."""
    calls: list[str] = []

    class Watched(SystemFiles):
        def open_read(self, path: Path) -> OpenFile:
            calls.append(f"sync {path.name}")
            return super().open_read(path)

        def sync_directory(self, path: Path) -> None:
            calls.append(f"sync {path.resolve().name}/")
            super().sync_directory(path)

        def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
            calls.append("write")
            return super().open_append(path, follow_links=follow_links)

    (tmp_path / "cache").mkdir()
    AnswerCache(tmp_path / "cache", files=Watched()).put(an_answer(workspace=workspace), workspace)
    assert calls == ["sync out.txt", "sync workspace/", "write", "sync cache/"]


@pytest.mark.parametrize(("point", "is_kept"), [("before", False), ("after", True)])
def test_a_crash_leaves_the_whole_answer_or_none(
    point: str, is_kept: bool, cache: AnswerCache, workspace: Path, tmp_path: Path
) -> None:
    """A crash before the answer is kept repeats the work; one after it does not."""
    crash_points.arm(f"agents.cache.{point}_store:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            cache.put(an_answer(workspace=workspace), workspace)
    finally:
        crash_points.arm(None)
    found = AnswerCache(tmp_path / "cache").get(KEY, workspace)
    assert (found is not None) == is_kept


def test_no_power_cut_leaves_half_an_answer(workspace: Path) -> None:
    """Whenever the power goes, an answer that was acknowledged is there, and none is damaged."""

    def scenario(files: Files, acks: Acks[str]) -> None:
        cache = AnswerCache(Path("/state/cache/builder"), files=files)
        for key in (KEY, OTHER):
            cache.put(an_answer(key), workspace)
            acks.ack(key)

    def check(files: CrashFiles, acks: Acks[str]) -> None:
        cache = AnswerCache(Path("/state/cache/builder"), files=files)
        for key in (KEY, OTHER):
            found = cache.get(key, workspace)
            assert found == an_answer(key) if key in acks else found in (None, an_answer(key))
            cache.put(an_answer(key), workspace)
            assert cache.get(key, workspace) == an_answer(key)

    run_with_crash_at_every_step(scenario, check)
