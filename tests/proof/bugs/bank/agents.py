"""Bugs of agents: success that was none, and answers that belong to other work."""

from typing import Final

from tests.proof.bugs.bug import Bug

_HONESTY: Final = "tests/unit/agents/test_exec_honesty.py"
_REUSE: Final = "tests/unit/agents/test_answer_reuse.py"
_PRUNING: Final = "tests/unit/agents/test_cache_pruning.py"

BUGS: Final = (
    Bug(
        id="unchecked-passes",
        name="a build without a check says that its tests pass",
        harm="A run counts as checked, though nothing has looked at what was made.",
        file="agents/exec.py",
        find='{"status": "unchecked" if has_changed else "unchanged"}',
        replace='{"status": "pass"}',
        test=f"{_HONESTY}::test_h73_a_builder_without_a_check_is_unchecked",
        breaks="O1",
    ),
    Bug(
        id="unchanged-passes",
        name="a check that passes without any change is a pass",
        harm="A program that did nothing is reported as a success.",
        file="agents/exec.py",
        find='passed = "pass" if has_changed else "unchanged"',
        replace='passed = "pass"',
        test=f"{_HONESTY}::test_h73_an_unchanged_tree_does_not_pass[true]",
        breaks="O1",
    ),
    Bug(
        id="question-is-no-failure",
        name="a builder that only asks is done",
        harm="The question is lost in a log, and the run goes on without its answer.",
        file="agents/exec.py",
        find="            if now == start:\n",
        replace="            if not BUILDER_LINES:\n",
        test="tests/system/test_run_honesty.py::test_h73_a_question_fails_the_run_and_is_shown",
        breaks="O1",
    ),
    Bug(
        id="failure-not-told",  # wording: data
        name="a failed attempt is not passed to the next one",
        harm="The program makes the same mistake until its attempts are used up.",
        file="orchestrator/prompt_context.py",
        find="found = _of_failure(command) if command.failures else {}",
        replace="found: Record = {}",
        test="tests/unit/orchestrator/test_prompt_context.py"
        "::test_h73_the_next_attempt_gets_the_last_failure",
        breaks="O1",
    ),
    Bug(
        id="reuse-on-another-tree",
        name="a result of another run is reused, whatever the tree is",
        harm="Files that were made from other sources are restored over the present ones.",
        file="agents/answer_reuse.py",
        find="                elif not self._is_restoring(answer, now):\n",
        replace="                elif not answer:\n",
        test=f"{_REUSE}::test_a_result_is_not_reused_elsewhere[changed]",
        breaks="O1",
    ),
    Bug(
        id="reuse-with-deletions",
        name="a result that deleted files is reused by restoring the others",
        harm="The tree after it is one that no work has led to.",
        file="agents/answer_reuse.py",
        find="if changed.deleted or set(changed.changed) - named",
        replace="if set(changed.changed) - named",
        test=f"{_REUSE}::test_what_restored_files_do_not_show_is_not_reused[deletes]",
        breaks="O1",
    ),
    Bug(
        id="restore-over-hidden-files",
        name="restoring overwrites files that no snapshot holds",
        harm="What a person wrote into an ignored file is lost.",
        file="agents/artifact_bytes.py",
        find="if path not in tracked and (workspace / path).exists():",
        replace="if False:",
        test=f"{_PRUNING}::test_bytes_are_restored_with_their_rights",
        breaks="O1",
    ),
    Bug(
        id="prune-what-runs-need",
        name="old results are pruned though an unfinished run names them",
        harm="A run that is resumed does work again that was done.",
        file="agents/answer_cache.py",
        find="if each[1].answer.key not in keep]",
        replace="]",
        test=f"{_PRUNING}::test_what_an_unfinished_run_names_is_never_pruned",
        breaks="O1",
    ),
    Bug(
        id="prune-foreign-archives",
        name="every archive in the cache's folder is taken for one of ours",
        harm="A file that a user put there is removed.",
        file="agents/answer_cache.py",
        find='if artifact_bytes.key_of(path) == f"ik:{name[:64]}":',
        replace="if path:",
        test=f"{_PRUNING}::test_only_files_of_the_cache_are_pruned",
        breaks="O1",
    ),
    Bug(
        id="beginning-of-another-run",
        name="the tree before a program is that of an earlier run with the same key",
        harm="What the earlier run had changed is reported as the work of this one.",
        file="agents/changed_files.py",
        find="self._run = run_digest(run)",
        replace='self._run = run_digest("")',
        test=f"{_REUSE}::test_a_program_in_another_run_begins_with_that_runs_tree",
        breaks="O1",
    ),
    Bug(
        id="redo-begins-with-the-first-tree",
        name="a build that is done again names every file that was written since the first one",
        harm="A changelog counts as built, its approval is withdrawn, and the run never ends.",
        file="agents/exec.py",
        find="done = self._cache.stored(command.key, run=self._run_id)",
        replace="done = None",
        test="tests/system/test_run_honesty.py"
        "::test_h71_a_redo_of_a_wrapped_build_is_not_taken_for_later_work",
        breaks="O1",
    ),
    Bug(
        id="half-restored-tree",
        name="a restore that was killed is not completed",
        harm="The program finds its work done, changes nothing and asks; the run fails.",
        file="agents/answer_reuse.py",
        find="                elif not self._is_restoring(answer, now):\n",
        replace="                else:\n",
        test=f"{_REUSE}"
        "::test_h73_a_kill_during_a_restore_leaves_no_question_and_no_file[after_open-4]",
        breaks="O1",
    ),
    Bug(
        id="lost-connection-is-final",
        name="a refused connection ends a command for good",
        harm="A run fails because a service was away for a second.",
        file="agents/handlers.py",
        find="return any(map(_is_connection_error, _causes(exc)))",
        replace="return False",
        test="tests/unit/orchestrator/test_agent_retries.py"
        "::test_a_refused_connection_is_tried_again",
        breaks="O1",
    ),
)
