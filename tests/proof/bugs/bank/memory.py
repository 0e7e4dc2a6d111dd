"""Bugs of the memory's names, and of what it does while its store is away."""

from typing import Final

from tests.proof.bugs.bug import Bug

_NAMES: Final = "tests/conformance/memory/test_names.py"
_MERGE: Final = "tests/conformance/memory/test_name_merge.py"
_OUTAGE: Final = "tests/conformance/memory/test_outage_recovery.py"
_BUFFER: Final = "tests/unit/memory/test_offline_buffer.py"

BUGS: Final = (
    Bug(
        id="name-as-spelled",
        name="a name is stored as it was spelled",
        harm="What one agent learned about a concept is not found under another spelling.",
        file="memory/graph/write_validation.py",
        find="settled = canonical_name(text, self._root)",
        replace="settled = text",
        test=f"{_NAMES}::test_h62_four_spellings_are_one_entity[sqlite-concept]",
        breaks="M2",
    ),
    Bug(
        id="record-as-spelled",
        name="an issue is named by the bytes of its message",
        harm="A fix is recorded for one form of a character, and not found for the other.",
        file="memory/entity_names.py",
        find='name = normalize("NFC", key(_redacted(normalize("NFC", body), redactor)))',
        replace="name = key(_redacted(body, redactor))",
        test=f"{_NAMES}::test_h62_messages_and_commands_are_normalised_too[sqlite]",
        breaks="M2",
    ),
    Bug(
        id="merge-keeps-copies",
        name="undoing a merge leaves what the merge has copied",
        harm="After it was undone the canonical entity has facts that were never added to it.",
        file="memory/graph/name_merge.py",
        find="    remove_batch(tx, ValidatedBatch(facts=facts, links=links))\n",
        replace="",
        test=f"{_MERGE}::test_h62_spellings_are_merged_and_that_is_undone[sqlite-True]",
        breaks="M3",
    ),
    Bug(
        id="merge-forgets-origin",
        name="merged facts are written in the name of the merge",
        harm="The origin of a fact is lost.",
        file="memory/graph/name_merge.py",
        find="tx.with_origin(WriteOrigin(source=source, run=run)),\n",
        replace="tx,\n",
        test=f"{_MERGE}::test_h62_the_origin_and_the_history_of_merged_facts_stay[sqlite]",
        breaks="M1",
    ),
    Bug(
        id="buffer-forgets-early",
        name="a record is forgotten when the store is away again",
        harm="Records that were acknowledged during an outage are lost in the next one.",
        file="memory/offline_buffer.py",
        find="            if is_away:  # The store or the disk failed, not the record.\n"
        "                raise\n",
        replace="",
        test=f"{_BUFFER}::test_h63_a_store_that_goes_again_stops_the_replay",
        breaks="M1",
    ),
    Bug(
        id="buffer-overtaken",
        name="a record is written while older ones wait",
        harm="A fix is recorded before its error, and its relation is refused.",
        file="memory/outage_recovery.py",
        find="if not self.is_open and not self._pending():",
        replace="if not self.is_open:",
        test=f"{_OUTAGE}::test_h63_a_new_record_is_buffered_after_earlier_ones[sqlite]",
        breaks="M1",
    ),
    Bug(
        id="breaker-never-opens",
        name="every call asks a store that is away",
        harm="Each call of an agent takes a whole timeout while the database is down.",
        file="memory/outage_recovery.py",
        find="        error = self._error\n",
        replace="        error = None\n",
        test=f"{_OUTAGE}::test_h63_calls_fail_at_once_while_the_store_is_away[sqlite]",
        breaks="M3",
    ),
    Bug(
        id="secret-in-buffer",
        name="records wait on disk as they were sent",
        harm="A token that the memory would have redacted is in a file in the home directory.",
        file="memory/outage_recovery.py",
        find="clean = redactor.value(dated)",
        replace="clean = dict(dated)",
        test=f"{_OUTAGE}::test_h63_no_secret_waits_on_disk[sqlite]",
        breaks="M5",
    ),
    Bug(
        id="buffer-replay-endless",
        name="a command writes waiting records for as long as others add some",
        harm="A captured command does not end, because busy agents record all the time.",
        file="memory/offline_buffer.py",
        find="if seconds_max is not None and spent >= seconds_max:",
        replace="if seconds_max is not None and spent < 0:",
        test=f"{_BUFFER}::test_h63_a_replay_ends_in_time_though_records_keep_coming",
        breaks="M3",
    ),
    Bug(
        id="fix-overtakes",
        name="a fix is written while older records wait",
        harm="It is refused, because its error is not recorded yet.",
        file="cli/memory_capture.py",
        find="was_buffered, is_buffered = _buffer_if_pending(\n"
        "        memory, lambda buffer: buffer_fix(buffer, memory, dated, where)\n"
        "    )",
        replace="was_buffered, is_buffered = False, False",
        test="tests/system/test_memory_capture_waiting.py"
        "::test_h63_a_fix_does_not_overtake_records_that_another_process_writes",
        breaks="M1",
    ),
    Bug(
        id="own-record-known",
        name="a capture that is recorded again takes its own issues for known ones",
        harm="A person looks for what is known about an error that was never seen before.",
        file="memory/capture/command_capture.py",
        find="        if run.name not in new:\n",
        replace="        if not run.name:\n",
        test="tests/conformance/memory/test_buffered_capture.py"
        "::test_h63_a_replayed_capture_reports_its_own_issue_as_new[sqlite]",
        breaks="M1",
    ),
    Bug(
        id="guessed-name-told-as-sure",  # wording: data
        name="the guessed name of a fix that waits is reported as its name",
        harm="An agent records the outcome of a fix that does not exist.",
        file="memory/buffered_records.py",
        find='return {**shape, "isNameProvisional": True}',
        replace="return shape",
        test=f"{_OUTAGE}::test_h63_the_name_of_a_fix_that_waits_is_said_to_be_provisional[sqlite]",
        breaks="M3",
    ),
    Bug(
        id="odd-id-unanswered",
        name="a request with an odd id is taken for a notification",
        harm="A client waits for an answer that never comes.",
        file="memory/mcp/stdio_transport.py",
        find="        check_request(_json_value(line.data))\n    return message",
        replace="        pass\n    return message",
        test="tests/unit/memory/test_request_ids.py"
        "::test_an_odd_request_id_is_an_invalid_request[1.5]",
        breaks="M3",
    ),
)
