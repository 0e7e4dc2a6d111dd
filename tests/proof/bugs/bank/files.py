"""Bugs of everything that is kept in files: journal, Lab and orchestrator."""

from typing import Final

from tests.proof.bugs.bug import Bug

_CRASHES: Final = "tests/unit/journal/test_crashes.py"
_APPEND: Final = "tests/unit/journal/test_append.py"
_ROOTED: Final = "tests/unit/system/test_safe_paths.py"
_STEPS: Final = "tests/unit/lab/test_intent_log.py"
_ORIGINAL: Final = "tests/unit/lab/test_original_roots.py"
_ORCHESTRATOR: Final = "tests/unit/orchestrator"

BUGS: Final = (
    Bug(
        id="append-without-fsync",
        name="an append returns before its record is on disk",
        harm="A power cut takes feedback away that was reported as kept.",
        file="journal/journal.py",
        find="        file.sync()\n",
        replace="",
        test=f"{_CRASHES}::test_no_acknowledged_record_is_lost_and_no_torn_one_returned",
        breaks="D1",
    ),
    Bug(
        id="cursor-before-fsync",
        name="a reader is given a cursor before what it read is on disk",
        harm="After a power cut the cursor is ahead of the file, and skips what is written again.",
        file="journal/journal.py",
        find="            if position > start:\n                self._make_durable(file, stat)\n",
        replace="",
        test=f"{_CRASHES}::test_no_cursor_is_ahead_of_what_survived",
        breaks="D4",
    ),
    Bug(
        id="replace-without-directory-fsync",
        name="a replaced file is acknowledged before its new name is on disk",
        harm="A power cut brings the old file back after the new one was acknowledged.",
        file="journal/atomic_file.py",
        find="        disk.sync_directory(target.parent)\n",
        replace="",
        test=f"{_CRASHES}::test_replacement_leaves_the_old_or_the_new",
        breaks="D1",
    ),
    Bug(
        id="rename-before-fsync",
        name="a file gets its name before its content is on disk",
        harm="A power cut leaves an empty or torn file in the place of the good one.",
        file="journal/atomic_file.py",
        find="""        file.sync()
        crash_point("atomic.write.after_sync")
        disk.replace(temporary, target)
""",
        replace="""        disk.replace(temporary, target)
        file.sync()
        crash_point("atomic.write.after_sync")
""",
        test=f"{_CRASHES}::test_replacement_leaves_the_old_or_the_new",
        breaks="D1",
    ),
    Bug(
        id="sqlite-does-not-sync",
        name="a commit on SQLite does not wait for the disk",
        harm="A power cut takes back what was reported to every caller as done.",
        file="stores/sqlite/connection.py",
        find="pragma synchronous = full",
        replace="pragma synchronous = off",
        test="tests/proof/disk/test_sqlite.py"
        "::test_a_bad_disk_leaves_the_state_before_a_step_or_after_it[cursor]",
        breaks="D1",
    ),
    Bug(
        id="checkpoint-fails-a-commit",
        name="a commit fails when its checkpoint finds no connection",
        harm="The caller learns that nothing was written, repeats it, and it is there twice.",
        file="stores/sqlite/database.py",
        find="with suppress(OncewardError):",
        replace="with suppress():",
        test="tests/system/test_checkpoints.py"
        "::test_a_checkpoint_that_finds_no_connection_is_not_a_failed_commit",
        breaks="D1",
    ),
    Bug(
        id="torn-line-not-ended",
        name="an append after a torn line does not begin a new one",
        harm="Half a line of a dead process swallows the next record, which was acknowledged.",
        file="journal/journal.py",
        find='self._write(file, b"\\n" + lines if is_torn else lines)',
        replace="self._write(file, lines)",
        test=f"{_APPEND}::test_h06_a_torn_line_is_skipped_once_and_the_next_record_is_whole",
        breaks="D3",
    ),
    Bug(
        id="fsync-retried",
        name="a file whose fsync failed is trusted again",
        harm="Linux drops what it could not write, says yes the next time, and a record is gone.",
        file="system/system_files.py",
        find="            self._refused.add(self.stat().identity)\n",
        replace="",
        test=f"{_APPEND}::test_a_failed_fsync_is_unknown_and_final_for_this_process",
        breaks="D1",
    ),
    Bug(
        id="cursor-tag-not-compared",
        name="a cursor is taken for any file that is long enough",
        harm="After a file was replaced an agent goes on in the middle of it, and misses the rest.",
        file="journal/byte_cursor.py",
        find="if tag is not None and tag != position_tag(file, stat, position):",
        replace="if tag is not None and tag == START and position:",
        test="tests/unit/lab/test_feedback.py::test_h10_a_replaced_file_is_noticed",
        breaks="L2",
    ),
    Bug(
        id="checksum-not-compared",
        name="a receipt is believed without its checksum",
        harm="A damaged receipt passes for a good one, and a wrong result is used.",
        file="orchestrator/workspace.py",
        find="if found == digest(record):",
        replace="if found:",
        test=f"{_ORCHESTRATOR}/test_workspace.py::test_sealed_files_come_back_or_are_called_damaged",
        breaks="D3",
    ),
    Bug(
        id="path-by-prefix",
        name="a path is inside a root if it begins with the same letters",
        harm="`/data/lab-private` is read because `/data/lab` is allowed.",
        file="system/safe_paths.py",
        find="if real[: len(anchored.parts)] == anchored.parts:",
        replace="if str(PurePath(*real)).startswith(str(anchored)):",
        test="tests/unit/system/test_contained_paths.py::test_a_sibling_with_the_same_beginning_is_outside",
        breaks="L3",
    ),
    Bug(
        id="links-followed",
        name="a link below a root is followed",
        harm="A run that holds a link to `/etc` shows what lies there.",
        file="system/safe_paths.py",
        find="_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC",
        replace="_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC",
        test=f"{_ROOTED}::test_links_are_not_followed",
        breaks="L3",
    ),
    Bug(
        id="request-id-not-announced",
        name="a judgement is written before its request id is",
        harm="A crash in between and the retry: the same judgement counts twice.",
        file="lab/intent_log.py",
        find='append(intent.to_record("intent"))',
        replace="end()",
        test=f"{_STEPS}::test_h02_a_crash_after_the_intent_is_completed_by_the_retry"
        "[lab.request.after_entries]",
        breaks="L1",
    ),
    Bug(
        id="request-id-of-another",
        name="a request id is answered without looking at what it was used for",
        harm="A judgement is dropped in silence because another one had the same id.",
        file="lab/intent_log.py",
        find="        return known.fingerprint == self.fingerprint\n",
        replace="        return True\n",
        test=f"{_STEPS}::test_h05_the_same_id_for_another_request_is_refused",
        breaks="L1",
    ),
    Bug(
        id="entries-written-twice",
        name="what a dead process had written already is written again",
        harm="A judgement that was cut off after its first entry counts that entry twice.",
        file="lab/intent_log.py",
        find="        if is_new:\n            self._journal(position.path).append(*records)\n",
        replace="        self._journal(position.path).append(*records)\n",
        test=f"{_STEPS}::test_h03_a_submit_that_died_after_its_first_entry_is_completed[False]",
        breaks="D2",
    ),
    Bug(
        id="same-key-in-round-two",
        name="a second round of a command has the key of the first",
        harm="The agent answers from its cache: changes that were asked for are never made.",
        file="orchestrator/next_step.py",
        find="""    if before:
        inputs["previous"] = previous_digest(state, before)
    if number > 1:
        inputs["round"] = number
""",
        replace="",
        test=f"{_ORCHESTRATOR}/test_next_step.py::test_h25_the_same_answer_in_the_next_round_is_new_work",
        breaks="O1",
    ),
    Bug(
        id="key-of-the-moment",
        name="a command has another key in every process",
        harm="A resumed run asks for everything again, as if it were other work.",
        file="keys/command.py",
        find='    parts.append(canonical_json(_object(inputs), root="inputs"))\n',
        replace='    parts.append(canonical_json({**inputs, "n": id(inputs)}, root="inputs"))\n',
        test=f"{_ORCHESTRATOR}/test_run_loop.py::test_idempotency_key_determinism",
        breaks="O1",
    ),
    Bug(
        id="artifact-not-compared",
        name="an artifact on disk is not compared with what its receipt says",
        harm="A file that a user changed between two processes is taken for the agent's own work.",
        file="agents/artifacts.py",
        find='if found["sha256"] != artifact["sha256"] or found["size"] != size:',
        replace='if found["size"] != size:',
        test=f"{_ORCHESTRATOR}/test_receipts.py"
        "::test_h30_an_artifact_that_is_not_as_it_was_is_made_again_and_only_that[changed]",
        breaks="O3",
    ),
    Bug(
        id="line-without-end",
        name="a line of an agent may be of any length",
        harm="An agent that prints without a newline fills the memory, and the run dies.",
        file="agents/line_reader.py",
        find="""        if self._size >= self._line_bytes_max:
            self._parts.clear()
        elif part:
""",
        replace="        if part:\n",
        test="tests/unit/agents/test_line_reader.py::test_a_line_without_end_takes_no_memory",
        breaks="O2",
    ),
    Bug(
        id="new-journal-not-named",
        name="an append to a new file does not wait until its name is on disk",
        harm="A power cut takes the whole file away after its first records were acknowledged.",
        file="journal/journal.py",
        find="            self._files.sync_directory(self.path.parent)\n",
        replace="",
        test=f"{_CRASHES}::test_no_acknowledged_record_is_lost_and_no_torn_one_returned",
        breaks="D1",
    ),
    Bug(
        id="times-compared-in-fractions",
        name="times of a fingerprint are compared as they were recorded, with their fractions",
        harm="Every run that a Node program imported looks overwritten, and cannot be judged.",
        file="lab/content_fingerprint.py",
        find="math.isfinite(mtime) and math.floor(mtime) in (",
        replace="math.isfinite(mtime) and mtime in (",
        test=f"{_ORIGINAL}::test_h61_a_run_of_the_original_is_unchanged[1770000000123456789]",
        breaks="L1",
    ),
    Bug(
        id="foreign-request-id-not-compared",
        name="a request id of another program answers whatever comes under it",
        harm="A judgement is reported as recorded, and it is not.",
        file="lab/intent_log.py",
        find="            return self.matches_stored(known.response)\n",
        replace="            return True\n",
        test=f"{_ORIGINAL}"
        "::test_h61_another_request_is_not_answered_by_a_line_of_the_original[changed0]",
        breaks="L1",
    ),
    Bug(
        id="foreign-request-id-unknown",
        name="a request id is read only from lines that name an entity",
        harm="A retry of what the original Lab recorded is recorded a second time.",
        file="lab/request_ids.py",
        find="    if found is None and isinstance(response, dict):\n",
        replace="    if found is not None and isinstance(response, dict):\n",
        test=f"{_ORIGINAL}::test_h61_a_retry_of_the_originals_review_appends_nothing",
        breaks="L1",
    ),
    Bug(
        id="null-answer-not-in-the-fingerprint",
        name="the fingerprint of a request leaves out answers of null",
        harm="Two requests under one id are taken for one, and the second is lost.",
        file="lab/judgement_rules.py",
        find='        asked["answers"] = dict(answers)',
        replace='        asked["answers"] = {k: v for k, v in answers.items() if v is not None}',
        test="tests/unit/lab/test_liberal_posts.py::test_a_null_answer_is_not_the_same_as_none",
        breaks="L1",
    ),
    Bug(
        id="experiment-made-without-intent",
        name="an experiment is appended before its request id is written down",
        harm="A retry whose answer was lost sets up a second comparison.",
        file="lab/lab.py",
        find="return IdempotentResponse(body=root.execute(request, plan), replayed=False)",
        replace="""self._journal(self.paths.experiments).append(made.to_record())
            crash_point("lab.request.after_experiment")
            root.record_response(request, plan.entity_id, plan.response)
            return IdempotentResponse(body=plan.response, replayed=False)""",
        test="tests/unit/lab/test_request_ids.py"
        "::test_a_crash_while_an_experiment_is_created_is_completed_by_the_retry"
        "[lab.request.after_experiment]",
        breaks="L1",
    ),
    Bug(
        id="outcome-at-the-top",
        name="the line of an experiment has a key that strict readers do not know",
        harm="Another program that shares the file drops every decision.",
        file="lab/models.py",
        find="            winner=chosen,\n",
        replace="            winner=chosen,\n            outcome=self.outcome,\n",
        test="tests/unit/lab/test_strict_readers.py"
        "::test_outcome_and_reason_stand_among_the_answers",
        breaks="L1",
    ),
)
