"""Bugs of runs: they show beside a second run, a redo or a person who edits files."""

from typing import Final

from tests.proof.bugs.bug import Bug

_APPROVALS: Final = "tests/unit/orchestrator/test_approvals.py"
_MANUAL_EDITS: Final = "tests/unit/orchestrator/test_manual_edits.py"
_KEPT: Final = "tests/unit/orchestrator/test_file_backups.py"
_UNSEEN_EDITS: Final = "tests/unit/orchestrator/test_unseen_edits.py"

BUGS: Final = (
    Bug(
        id="workspace-not-locked",
        name="two runs work in one workspace",
        harm="Two agents write the same files at once, and each reviewer sees half of each.",
        file="orchestrator/run_locks.py",
        find="acquire_process_lock(workspace.orchestrator_lock(), files, clock, purpose=choose)",
        replace="acquire_process_lock(workspace.lock(choose()).with_suffix('.own'), files, clock)",
        test="tests/unit/orchestrator/test_run_loop.py"
        "::test_h70_a_new_run_beside_one_at_work_is_refused_and_leaves_its_caches_alone",
        breaks="O1",
    ),
    Bug(
        id="orphans-of-other-runs-live",
        name="a new run does not end agents that a killed run left running",
        harm="The old agent writes into files that the new run has pinned and reviewed.",
        file="orchestrator/orchestrator.py",
        find="        end_orphans(left, clock=self._clock)\n",
        replace="        end_orphans([], clock=self._clock)\n",
        test="tests/system/test_one_orchestrator.py"
        "::test_h70_orphans_of_a_killed_run_end_before_the_next_run_pins_its_snapshot",
        breaks="O1",
    ),
    Bug(
        id="orphans-elsewhere-ignored",
        name="a run begins while an agent of a killed run still works in another container",
        harm="The old agent writes into files that the new run has pinned and reviewed.",
        file="orchestrator/run_locks.py",
        find="        if agent is None or is_certainly_gone(agent):\n",
        replace="        if agent is None or agent.pid:\n",
        test="tests/system/test_one_orchestrator.py"
        "::test_h70_a_run_is_refused_while_an_orphan_runs_in_another_container",
        breaks="O1",
    ),
    Bug(
        id="program-without-leader-lives",
        name="a wrapped program whose agent and group leader were killed goes on",
        harm="Two programs write the same files, and a snapshot is pinned while one does.",
        file="agents/program_lock.py",
        find="end_orphans([found], clock=clock)",
        replace="end_orphans([], clock=clock)",
        test="tests/system/test_one_orchestrator.py"
        "::test_h70_a_wrapped_program_ends_though_its_leader_was_killed_too[False]",
        breaks="O1",
    ),
    Bug(
        id="redo-keeps-approval",
        name="a build that is done again keeps the approval of the first one",
        harm="Code is delivered that no reviewer has seen.",
        file="orchestrator/approvals.py",
        find='approval.message["inputs"].get("previous") != previous_digest(state, before)',
        replace='"previous" not in approval.message["inputs"]',
        test=f"{_APPROVALS}::test_h71_a_redo_that_reports_something_else_is_reviewed_again",
        breaks="O3",
    ),
    Bug(
        id="edit-keeps-approval",
        name="an edit during or after a review counts as approved",
        harm="What was saved a moment after the review is delivered unseen.",
        file="orchestrator/run_loop.py",
        find="        return paths == []\n",
        replace="        return True\n",
        test=f"{_APPROVALS}::test_h71_accepted_changes_are_reviewed_before_they_are_delivered",
        breaks="O3",
    ),
    Bug(
        id="hidden-artifact-keeps-approval",
        name="an artifact that snapshots leave out may change after its review",
        harm="A hidden or ignored file that was built is delivered as no reviewer saw it.",
        file="orchestrator/approvals.py",
        find="        if beside is not None and untracked is not None:\n",
        replace="        if approved is None:\n",
        test=f"{_MANUAL_EDITS}"
        "::test_h71_an_edit_of_an_artifact_that_snapshots_leave_out_is_reviewed[update_spec]",
        breaks="O3",
    ),
    Bug(
        id="review-approves-what-it-saw",
        name="an edit during a wrapped review counts as the reviewer's",
        harm="A file is delivered with a line that no reviewer has read.",
        file="orchestrator/approvals.py",
        find="named = {path: file for path, file in named.items() if path in made}",
        replace="named = dict(named)",
        test=f"{_MANUAL_EDITS}::test_h71_an_edit_during_a_wrapped_review_is_not_approved_by_it",
        breaks="O3",
    ),
    Bug(
        id="failed-run-keeps-nothing",
        name="a run that fails records the tree without a copy of what changed",
        harm="A retry overwrites what a person wrote while the run failed.",
        file="orchestrator/run_loop.py",
        find="tree = self.back_up_changes()\n                self.diffs",
        replace="tree = self._tree.now()\n                self.diffs",
        test=f"{_MANUAL_EDITS}::test_h72_work_beside_a_run_that_fails_is_kept_before_a_retry",
        breaks="O3",
    ),
    Bug(
        id="observed-files-not-kept",
        name="what changed while a build ran is taken for the build's work",
        harm="A file that a person wrote in that time is overwritten by the next round.",
        file="orchestrator/receipts.py",
        find="each for each in state.observed if",
        replace="each for each in () if",
        test=f"{_MANUAL_EDITS}"
        "::test_h72_an_edit_during_a_wrapped_build_is_kept_before_the_next_one[app.py]",
        breaks="O3",
    ),
    Bug(
        id="changed-files-not-kept",
        name="a command is sent again without a copy of the files that changed",
        harm="A person's fix of an hour is overwritten by a resume.",
        file="orchestrator/run_loop.py",
        find="self.back_up_changes(receipts.observed_files(self.state, self.workspace))",
        replace="self._tree.now()",
        test=f"{_KEPT}::test_h72_work_between_two_attempts_is_kept",
        breaks="O3",
    ),
    Bug(
        id="ignored-workspace-has-no-files",
        name="a workspace that git ignores has an empty snapshot",
        harm="Approvals, drift and verify compare nothing there, and report nothing.",
        file="keys/snapshot.py",
        find="if any(map(_is_visible, listed)) or not _is_ignored(root):",
        replace="if listed is not None:",
        test=f"{_UNSEEN_EDITS}::test_h71_an_edit_in_a_workspace_that_git_ignores_is_reviewed",
        breaks="O3",
    ),
    Bug(
        id="hidden-edit-not-kept",
        name="an edited artifact that snapshots leave out is overwritten without a copy",
        harm="A person's change of a hidden or ignored file is lost with the next build.",
        file="orchestrator/change_backups.py",
        find="found - declared | self._untracked_changes(present, vouched)",
        replace="found - declared",
        test=f"{_UNSEEN_EDITS}::test_h72_an_edit_of_an_artifact_that_snapshots_leave_out_is_kept",
        breaks="O3",
    ),
    Bug(
        id="edit-between-tasks-unseen",
        name="a task starts from files that changed after the last review",
        harm="An edit between two tasks is delivered, and no reviewer has seen it.",
        file="orchestrator/run_loop.py",
        find="        if not self._is_approved(snapshot_id):\n",
        replace="        if not snapshot_id:\n",
        test=f"{_UNSEEN_EDITS}::test_h71_an_edit_between_two_tasks_of_a_live_run_is_reviewed",
        breaks="O3",
    ),
)
