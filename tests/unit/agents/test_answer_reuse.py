"""Reuse: an answer of one run counts in another only where all that it depends on is the same."""

import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import Command, HandlerResult, approved, artifact_bytes, completed
from onceward.agents.protocol import Message
from onceward.keys import snapshot
from onceward.system import crash_points
from tests.support.agent_messages import a_command
from tests.support.agent_processes import command as exec_command
from tests.support.agent_restarts import AgentRestarts, lives, without_ids, write_out
from tests.unit.agents.test_exec import ask

__all__ = ["lives"]

Change = Callable[[Path], object]


def pinned(workspace: Path, **fields: Any) -> Message:
    """Return a command whose snapshot is the workspace as it is."""
    return a_command(snapshot_id=snapshot(workspace).id, **fields)


def in_run(
    lives: AgentRestarts, run: str, handler: Any, *sent: Message, **fields: Any
) -> list[Message]:
    lives.env = {"ONCEWARD_RUN": run}
    said = lives.ask(handler, *sent, **fields)
    return [each for each in said if each["kind"] == "event"]


def test_a_result_is_reused_where_the_tree_is_the_snapshot(
    lives: AgentRestarts, tmp_path: Path
) -> None:
    """Its files are restored from the cache, and the handler does not run."""
    (tmp_path / "src.txt").write_text("source")
    asked = pinned(tmp_path)
    (first,) = in_run(lives, "run-1", write_out, asked)
    made = (tmp_path / "out.txt").read_bytes()
    (tmp_path / "out.txt").unlink()
    (second,) = in_run(lives, "run-2", write_out, asked)
    assert len(lives.begun) == 1
    assert without_ids(first) == without_ids(second)
    assert (tmp_path / "out.txt").read_bytes() == made
    # It is this run's own now: what another file becomes later does not matter.
    (tmp_path / "src.txt").write_text("changed later")
    (again,) = in_run(lives, "run-2", write_out, asked)
    assert without_ids(again) == without_ids(first)
    assert len(lives.begun) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "src.txt").write_text("other"),
        lambda root: (root / "new.txt").write_text("new"),
        lambda root: (root / "src.txt").unlink(),
        lambda root: [each.unlink() for each in root.rglob("*.zip")],
        lambda root: [each.write_bytes(b"x") for each in root.rglob("*.zip")],
    ],
    ids=["changed", "added", "removed", "bytes gone", "bytes damaged"],
)
def test_a_result_is_not_reused_elsewhere(
    lives: AgentRestarts, tmp_path: Path, change: Change
) -> None:
    """The tree is another one, or the cache does not hold the bytes: the work is done."""
    (tmp_path / "src.txt").write_text("source")
    asked = pinned(tmp_path)
    in_run(lives, "run-1", write_out, asked)
    (tmp_path / "out.txt").unlink()
    change(tmp_path)
    in_run(lives, "run-2", write_out, asked)
    assert len(lives.begun) == 2


def test_matching_artifacts_alone_are_no_reason(lives: AgentRestarts, tmp_path: Path) -> None:
    """What the first run made is still there, so the tree is not the snapshot."""
    asked = pinned(tmp_path)
    in_run(lives, "run-1", write_out, asked)
    in_run(lives, "run-2", write_out, asked)
    assert len(lives.begun) == 2


@pytest.mark.parametrize(
    ("does", "after"),
    [
        (lambda root: (root / "gone.txt").unlink(), "gone.txt"),
        (lambda root: (root / "unnamed.txt").write_text("x"), "unnamed.txt"),
    ],
    ids=["deletes", "does not name"],
)
def test_what_restored_files_do_not_show_is_not_reused(
    lives: AgentRestarts, tmp_path: Path, does: Change, after: str
) -> None:
    """A handler that deleted a file, or changed one that it does not name, runs again."""
    (tmp_path / "gone.txt").write_text("x")

    def handler(command: Command) -> HandlerResult:
        does(command.workspace)
        return write_out(command)

    asked = pinned(tmp_path)
    in_run(lives, "run-1", handler, asked)
    (tmp_path / "out.txt").unlink()
    if (tmp_path / after).exists():
        (tmp_path / after).unlink()
    else:
        (tmp_path / after).write_text("x")
    in_run(lives, "run-2", handler, asked)
    assert len(lives.begun) == 2


def test_a_file_that_no_snapshot_holds_is_not_overwritten(
    lives: AgentRestarts, tmp_path: Path
) -> None:
    """Hidden files are not part of the tree, so their current content is unknown."""

    def handler(command: Command) -> HandlerResult:
        (command.workspace / ".env").write_text("made")
        return completed(artifacts=[".env"])

    asked = pinned(tmp_path)
    in_run(lives, "run-1", handler, asked)
    (tmp_path / ".env").write_text("by hand")
    in_run(lives, "run-2", handler, asked)
    assert len(lives.begun) == 2


def test_too_many_bytes_stay_with_their_run(
    lives: AgentRestarts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache does not grow with big artifacts; within the run the answer counts."""
    monkeypatch.setattr(artifact_bytes, "BYTES_MAX", 3)
    asked = pinned(tmp_path)
    in_run(lives, "run-1", write_out, asked, asked)
    assert len(lives.begun) == 1
    (tmp_path / "out.txt").unlink()
    in_run(lives, "run-2", write_out, asked)
    assert len(lives.begun) == 2


def test_nothing_built_is_not_reused(lives: AgentRestarts, tmp_path: Path) -> None:
    """Another run may do better than one that changed nothing."""
    asked = pinned(tmp_path)
    for run in ("run-1", "run-2"):
        in_run(lives, run, lambda _: completed(tests="unchanged"), asked)
    assert len(lives.begun) == 2


def test_another_version_of_an_agent_does_its_own_work(
    lives: AgentRestarts, tmp_path: Path
) -> None:
    """What an older program answered says nothing of this one; an empty version shares nothing."""
    asked = pinned(tmp_path)
    for number, version in enumerate(("1", "1", "2", "", "")):
        lives.env = {"ONCEWARD_RUN": f"run-{number}"}
        agent = lives.agent(write_out)
        agent.version = version
        agent._answer(asked, agent._handlers["implement"])
        (tmp_path / "out.txt").unlink()
    assert len(lives.begun) == 4


# --- what the inputs carry ------------------------------------------------------------------------


def review(workspace: Path, *, digest: str | None = None) -> Message:
    found = hashlib.sha256((workspace / "code.txt").read_bytes()).hexdigest()
    files = [{"path": "code.txt", "sha256": digest or found}]
    inputs = {"goal": "look", "files": files}
    return a_command(agent_type="reviewer", action="review", inputs=inputs)


def looked(command: Command) -> HandlerResult:
    (command.workspace / "code.txt").read_text()
    return approved(read=["code.txt"])


def test_a_result_is_reused_if_the_inputs_carry_all_that_was_read(
    lives: AgentRestarts, tmp_path: Path
) -> None:
    """Whatever else the tree holds: the key names the content of what was looked at."""
    (tmp_path / "code.txt").write_text("good")
    asked = review(tmp_path)
    (first,) = in_run(lives, "run-1", looked, asked, agent_type="reviewer")
    (tmp_path / "other.txt").write_text("x")
    (second,) = in_run(lives, "run-2", looked, asked, agent_type="reviewer")
    assert without_ids(first) == without_ids(second)
    assert len(lives.begun) == 1
    (tmp_path / "code.txt").write_text("evil")
    in_run(lives, "run-3", looked, asked, agent_type="reviewer")
    assert len(lives.begun) == 2


@pytest.mark.parametrize(
    ("handler", "digest"),
    [
        (looked, "0" * 64),
        (lambda _: approved(read=["code.txt", "other.txt"]), None),
        (lambda _: approved(read=["missing.txt"]), None),
        (lambda _: approved(), None),
    ],
    ids=["other digest", "read more", "gone", "does not say"],
)
def test_a_result_that_read_more_stays_with_its_run(
    lives: AgentRestarts, tmp_path: Path, handler: Any, digest: str | None
) -> None:
    """One file without its digest in the inputs, and another run asks again."""
    (tmp_path / "code.txt").write_text("good")
    (tmp_path / "other.txt").write_text("x")
    asked = review(tmp_path, digest=digest)
    for run in ("run-1", "run-1", "run-2"):
        in_run(lives, run, handler, asked, agent_type="reviewer")
    assert len(lives.begun) == 2


# --- programs -------------------------------------------------------------------------------------


def test_a_program_is_run_again_with_other_options(tmp_path: Path) -> None:
    """A build that was unchecked is not reused once there is a check; alike, it is."""
    program = "open('state/runs.txt', 'a').write('x'); open('out.txt', 'w').write('done')"
    line = (sys.executable, "-c", program)
    (tmp_path / "state").mkdir()
    said = []
    for number, check in enumerate((None, None, "true", "true")):
        asked = exec_command(snapshot_id=snapshot(tmp_path).id)
        (answer,) = ask(tmp_path, line, asked, check=check, run=f"run-{number}")
        said.append(answer["payload"]["tests"]["status"])
        (tmp_path / "out.txt").unlink()
    assert said == ["unchecked", "unchecked", "pass", "pass"]
    assert (tmp_path / "state" / "runs.txt").read_text() == "xx"


def test_a_program_in_another_run_begins_with_that_runs_tree(tmp_path: Path) -> None:
    """What an earlier run had changed under the same key is no change of this one."""
    (tmp_path / "state").mkdir()
    asked = exec_command()
    writes = "import os; os.path.exists('out.txt') or open('out.txt', 'w').write('done')"
    (first,) = ask(tmp_path, writes, asked, check="true", run="run-1")
    (second,) = ask(tmp_path, writes, asked, check="true", run="run-2")
    tests = [each["payload"]["tests"]["status"] for each in (first, second)]
    assert tests == ["pass", "unchanged"]


TOOL = """
cat > /dev/null
echo x >> state/runs.txt
if [ -e bin/tool.sh ]; then echo 'It is there already. Anything else?'; exit; fi
mkdir -p bin; echo 'exit 0' > bin/tool.sh; chmod 755 bin/tool.sh; echo made > made.txt
"""
ATOMIC = ("after_open", "after_write", "after_sync", "after_rename", "before_return")
#: The tree before the work, the plan of the restore, two files, the archive and the answer.
WRITES = 6


@pytest.mark.parametrize("write", range(1, WRITES + 1))
@pytest.mark.parametrize("point", ATOMIC)
def test_h73_a_kill_during_a_restore_leaves_no_question_and_no_file(
    tmp_path: Path, point: str, write: int
) -> None:
    """The next process restores the rest, with the rights, and does not run the program."""
    (tmp_path / "state").mkdir()
    asked = exec_command(snapshot_id=snapshot(tmp_path).id)
    line = ("/bin/sh", "-ec", TOOL)
    (first,) = ask(tmp_path, line, asked, run="run-1")
    (tmp_path / "bin" / "tool.sh").unlink()
    (tmp_path / "bin").rmdir()
    (tmp_path / "made.txt").unlink()
    child = os.fork()
    if child == 0:
        crash_points.arm(f"atomic.write.{point}:{write}:kill")
        ask(tmp_path, line, asked, run="run-2")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (second,) = ask(tmp_path, line, asked, run="run-2")
    assert without_ids(second) == without_ids(first)
    assert (tmp_path / "bin" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "state" / "runs.txt").read_text() == "x\n"
    left = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert {each for each in left if not each.startswith("state/")} == {"bin/tool.sh", "made.txt"}


def test_h73_a_restore_that_fails_is_followed_by_the_work(tmp_path: Path) -> None:
    """The tree before it was recorded first, so that restored files count as changes."""
    (tmp_path / "state").mkdir()
    asked = exec_command(snapshot_id=snapshot(tmp_path).id)
    line = ("/bin/sh", "-ec", TOOL.replace("Anything else?", "Done."))
    ask(tmp_path, line, asked, run="run-1")
    (tmp_path / "bin" / "tool.sh").unlink()
    (tmp_path / "bin").rmdir()
    (tmp_path / "made.txt").rename(tmp_path / "state" / "made.txt")
    child = os.fork()
    if child == 0:
        crash_points.arm("atomic.write.after_open:4:kill")  # The first file is restored.
        ask(tmp_path, line, asked, run="run-2")
        os._exit(0)
    os.waitpid(child, 0)
    for each in tmp_path.rglob("*.zip"):
        each.unlink()
    (second,) = ask(tmp_path, line, asked, run="run-2")
    assert (tmp_path / "state" / "runs.txt").read_text() == "x\nx\n"
    assert second["event"] == "builder.completed"
    assert [each["path"] for each in second["artifacts"]] == ["bin/tool.sh"]
