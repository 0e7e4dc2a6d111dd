"""File workloads: work on files with promises on the way, which can be finished after any end.

Each goes through the `Files` seam, so that the disk below it may be any. `check` looks at what is
left, finishes the work in a new process's view, and returns how much there was of it. Knows no
faults.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from onceward.agents.answer_cache import AgentAnswer, AnswerCache, run_digest
from onceward.errors import InvalidCursor
from onceward.journal import Journal
from onceward.lab import FeedbackClient
from onceward.lab.models import Experiment
from onceward.lab.request_models import NewFeedback
from onceward.system import Files, Ids, ManualClock, SeededRandomness
from onceward.testing import CrashFiles
from tests.support.labs import (
    NOTES,
    make_experiment,
    make_lab,
    make_run,
    paths_in,
    say_and_decide_again,
)
from tests.support.labs import submission as submission_of


class Promises(list[Any]):
    """What was promised so far, in order; a watcher is called with the files each rests on."""

    def __init__(self, watch: Callable[..., None] | None = None) -> None:
        """Let `watch` see each promise when it is made."""
        super().__init__()
        self._watch = watch

    def promise(self, item: object, *paths: Path) -> None:
        """Promise that this survives anything from now on; it rests on these files."""
        if self._watch is not None:
            self._watch(*paths)
        self.append(item)


class Workload:
    """Work of one kind."""

    claims: tuple[str, ...] = ("D1", "D2")

    def __init__(self, directory: Path) -> None:
        """Have a real directory at hand, for what is no matter of the seam."""
        self.directory = directory

    def start(self) -> CrashFiles:
        """Return the disk on which it begins."""
        files = CrashFiles()
        files.make_directories(self.directory)
        return files

    def work(self, files: Files, promises: Promises) -> None:
        """Do the work."""
        raise NotImplementedError

    def check(self, files: Files, promises: Promises) -> int:
        """Find what was promised, and finish the work."""
        raise NotImplementedError


class Appending(Workload):
    """Records are appended to a journal."""

    claims = ("D1", "D2", "D3", "D4")
    sizes = (10, 700, 1500)

    def journal(self, files: Files) -> Journal:
        """Return the journal."""
        return Journal(self.directory / "journal.jsonl", files=files)

    def work(self, files: Files, promises: Promises) -> None:
        """Append records that are smaller and larger than a sector."""
        journal = self.journal(files)
        for number, size in enumerate(self.sizes):
            journal.append({"id": str(number), "text": "x" * size})
            promises.promise(str(number), journal.path)

    def check(self, files: Files, promises: Promises) -> int:
        """Find them whole and in order, and append the rest."""
        journal = self.journal(files)
        found = [each["id"] for each in journal.read().items]
        assert found[: len(promises)] == list(promises), (found, promises)
        for number, size in enumerate(self.sizes):
            if str(number) not in found:
                journal.append({"id": str(number), "text": "x" * size})
        items = journal.read().items
        assert sorted(each["id"] for each in items) == ["0", "1", "2"], items
        assert all(len(each["text"]) == self.sizes[int(each["id"])] for each in items)
        return len(items)


class Caching(Workload):
    """An agent keeps its answers."""

    claims = ("D1", "D2", "O1")
    keys = tuple(f"ik:{digit * 64}" for digit in "abc")

    def cache(self, files: Files) -> AnswerCache:
        """Return the cache."""
        return AnswerCache(self.directory / "cache", files=files)

    def answer(self, key: str) -> AgentAnswer:
        """Return an answer of more than a sector."""
        payload = {"tests": {"status": "pass"}, "notes": key * 20}
        return AgentAnswer(
            key=key,
            snapshot_id="snap-1",
            event="builder.completed",
            status=None,
            payload=payload,
            artifacts=[],
        )

    def work(self, files: Files, promises: Promises) -> None:
        """Keep each answer."""
        cache = self.cache(files)
        for key in self.keys:
            cache.put(self.answer(key), self.directory)
            promises.promise(key, self.directory / "cache" / f"{key[3:]}-{run_digest('')}.json")

    def check(self, files: Files, promises: Promises) -> int:
        """Get them back as they were, or not at all; then keep them again."""
        cache = self.cache(files)
        for key in self.keys:
            found = cache.get(key, self.directory)
            assert found in (None, self.answer(key)), found
            assert found is not None or key not in promises, key
            cache.put(self.answer(key), self.directory)
            assert self.cache(files).get(key, self.directory) == self.answer(key)
        return len(self.keys)


class Following(Workload):
    """An agent follows the feedback, with a place of its own."""

    claims = ("D1", "D2", "L2")
    count = 4

    def start(self) -> CrashFiles:
        """Begin with feedback that is on disk."""
        files = super().start()
        entries = [
            {"id": f"fb_{number}", "createdAt": "2026-01-01T00:00:00.000Z"}
            for number in range(self.count)
        ]
        Journal(self.directory / "feedback.jsonl", files=files).append(*entries)
        # The lock of a client is the machine's own.
        self.directory.joinpath("agent").mkdir(exist_ok=True)
        return files

    def client(self, files: Files) -> FeedbackClient:
        """Return a client with its place."""
        cursor = self.directory / "agent" / "cursor.json"
        source = self.directory / "feedback.jsonl"
        return FeedbackClient(source, cursor=cursor, wait=0, files=files, clock=ManualClock())

    def work(self, files: Files, promises: Promises) -> None:
        """Take the entries one by one."""
        with self.client(files) as client:
            for entry in client.available():
                client.done()
                promises.promise(entry["id"], self.directory / "agent" / "cursor.json")

    def check(self, files: Files, promises: Promises) -> int:
        """What was done does not come again; at most one comes that may have been."""
        with self.client(files) as client:
            found = [each["id"] for each in client.available()]
        wanted = [f"fb_{number}" for number in range(self.count)]
        at = len(promises)
        assert found in (wanted[at:], wanted[at + 1 :]), (found, promises)
        with self.client(files) as client, suppress(InvalidCursor):
            assert list(client.available()) == []
        return self.count


class Judging(Workload):
    """People judge runs in the Lab."""

    claims = ("D1", "D2", "L1", "L2")

    def __init__(self, directory: Path) -> None:
        """Make the runs that are judged: files of others."""
        super().__init__(directory)
        make_run(directory, "side0")
        make_run(directory, "side1")
        self.experiment: Experiment | None = None

    def work(self, files: Files, promises: Promises) -> None:
        """Import, say something, and decide."""
        lab = make_lab(self.directory, "lab_one", files=files, ids=Ids(SeededRandomness(7)))
        feedback = paths_in(self.directory).feedback
        experiment = make_experiment(lab, self.directory)
        self.experiment = experiment
        promises.promise(("experiment", experiment.experiment_id))
        said = lab.add_feedback(NewFeedback(notes=NOTES), "req-1")
        promises.promise(("req-1", said.body), feedback)
        decided = lab.submit(experiment.experiment_id, submission_of(experiment), "req-2")
        promises.promise(("req-2", decided.body), feedback)

    def check(self, files: Files, promises: Promises) -> int:
        """Ask for all of it again: the same answers, and each entry once."""
        acknowledged = dict(promises)
        lab = make_lab(self.directory, files=files, ids=Ids(SeededRandomness(8)))
        if "experiment" not in acknowledged:
            return 1
        experiment = self.experiment
        assert experiment is not None
        return len(say_and_decide_again(lab, experiment, acknowledged))
