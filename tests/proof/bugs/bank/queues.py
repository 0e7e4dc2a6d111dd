"""Bugs of retries, workers and dispatch: what must happen to every message, once."""

from typing import Final

from tests.proof.bugs.bug import Bug

_RETRIES: Final = "tests/conformance/test_retries.py"
_DEAD: Final = "tests/conformance/test_retries_dead.py"
_PARKED: Final = "tests/conformance/test_retries_parked.py"
_WORKER: Final = "tests/conformance/workers/test_worker.py"
_DISPATCH: Final = "tests/conformance/dispatch"

BUGS: Final = (
    Bug(
        id="attempts-not-counted",
        name="every failure is the first one",
        harm="A message that can never succeed is tried every minute, for ever.",
        file="retries/held_attempts.py",
        find="attempt = known.attempt + 1 if known else 1",
        replace="attempt = 1",
        test=f"{_RETRIES}"
        "::test_waits_of_1_2_5_15_and_60_minutes_exactly_then_a_dead_letter[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="schedule-reset-at-restart",
        name="a new worker does not know which messages failed",
        harm="A worker that is restarted in a loop hammers a service that is down.",
        file="workers/message_processing.py",
        find="self._failing = set(ow.retries.attempts.positions(lease.name))",
        replace="self._failing = set[str]()",
        test=f"{_WORKER}::test_a_failing_message_holds_its_cursor[sqlite-None]",
        breaks="R1",
    ),
    Bug(
        id="due-too-early",
        name="a message is due at its time already, and not after it",
        harm="Two workers whose looks fall on one moment both count an attempt.",
        file="stores/queries/retries.sql",
        query="parked_due",
        find="and due_boot = :boot and due_seconds < :now",
        replace="and due_boot = :boot and due_seconds <= :now",
        test=f"{_PARKED}::test_a_parked_message_dies_after_exactly_five_waits[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="dead-letter-without-bytes",
        name="a dead letter keeps no bytes",
        harm="What could not be read is gone for good, and cannot be repaired.",
        file="stores/queries/retries.sql",
        query="dead_write",
        find=":raw, 'dead',",
        replace="x'', 'dead',",
        test=f"{_DEAD}::test_undecodable_input_is_a_dead_letter_with_its_raw_bytes[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="parked-not-fenced",
        name="a parked message is ended by any worker that read it, moved on or not",
        harm="A message that was redriven meanwhile is done twice.",
        file="retries/parked.py",
        find="""    rows = tx.query("parked_remove", id=parked.id, attempt=parked.attempt)
    if not rows:
        raise _superseded(parked)
    return int(rows[0][0])
""",
        replace="""    rows = tx.query("parked_remove", id=parked.id, attempt=parked.attempt)
    return int(rows[0][0]) if rows else 0
""",
        test=f"{_PARKED}::test_a_stale_handle_changes_nothing[sqlite]",
        breaks="W1",
    ),
    Bug(
        id="key-not-parked",
        name="later messages of a key do not wait for one that failed",
        harm="A cancellation is handled before the order that it cancels.",
        file="workers/message_processing.py",
        find="return message.key is not None and message.key in self._blocked",
        replace="return False",
        test=f"{_WORKER}::test_a_failing_key_parks_its_later_messages[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="next-of-key-not-due",
        name="the next message of a key is not let go when the one before is done",
        harm="Every later message of that customer waits for ever, without an error.",
        file="retries/parked.py",
        find="""        crash_point("retries.succeed.after_remove")
        promote(tx, parked.message.cursor, parked.message.key)
""",
        replace="""        crash_point("retries.succeed.after_remove")
""",
        test=f"{_PARKED}::test_later_messages_of_a_key_wait_for_it_in_order[sqlite]",
        breaks="F4",
    ),
    Bug(
        id="parked-after-the-checkpoint",
        name="the cursor passes a failed message in a commit of its own, before it is parked",
        harm="A crash in between: the message is neither done, nor waiting, nor a dead letter.",
        file="workers/message_processing.py",
        find="""        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            if is_held:
""",
        replace="""        if not is_held:
            self._lease.checkpoint(kept.position, count=0)
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            if is_held:
""",
        test="tests/conformance/workers/test_worker_poll_cycles.py"
        "::test_the_cursor_passes_a_failed_message_when_it_is_parked[sqlite-waiting1]",
        breaks="W1",
    ),
    Bug(
        id="checkpoint-after-the-effects",
        name="a handler's effects are committed before the cursor moves",
        harm="A crash in between: the effects of a message happen twice.",
        file="workers/message_processing.py",
        find="""            self._lease.mark(tx)
            self._call_handler(messages, tx)
            rest(tx)
""",
        replace="""            self._lease.mark(tx)
            self._call_handler(messages, tx)
        crash_point("worker.handle.after_effect")
        with self._ow.transaction() as tx:
            rest(tx)
""",
        test="tests/conformance/workers/test_worker_poll_cycles.py"
        "::test_the_cursor_moves_in_the_commit_of_the_effects[sqlite]",
        breaks="W1",
    ),
    Bug(
        id="deadly-message-not-noted",
        name="the message at work is not noted where workers die",
        harm="A message that kills its worker kills every worker, for ever.",
        file="workers/poison_guard.py",
        find="for each in last) == TAKEOVERS_BEFORE_NOTES",
        replace="for each in last) > TAKEOVERS_BEFORE_NOTES",
        test="tests/conformance/workers/test_poison_guard.py"
        "::test_after_three_deaths_at_one_place_each_message_is_noted[sqlite]",
        breaks="W2",
    ),
    Bug(
        id="table-by-id-postgres",
        name="rows of transactions that still run are passed over, on PostgreSQL",
        harm="A row that commits after a later one is never read.",
        file="workers/sources/postgres_rows.py",
        find='_from(plan, _after(plan, after), _bound(plan, "<", (plan.xid, _XMIN))),',
        replace='_from(plan, _after(plan, after), _bound(plan, "<=")),',
        test="tests/conformance/workers/test_table_commits.py"
        "::test_h20_a_row_that_commits_after_a_later_id_is_not_skipped[postgres]",
        breaks="W1",
    ),
    Bug(
        id="table-boundary",
        name="a table is read from the row of its cursor on, not after it",
        harm="Every restart does the last row again.",
        file="workers/sources/postgres_rows.py",
        find='return _bound(plan, ">", *first)',
        replace='return _bound(plan, ">=", *first)',
        test="tests/conformance/workers/test_table_source.py"
        "::test_counts_are_between_two_positions[postgres]",
        breaks="W1",
    ),
    Bug(
        id="dispatch-by-time",
        name="messages are handed out after the time of the last one, not its number",
        harm="Of two messages of one millisecond the second is never answered.",
        file="stores/queries/dispatch.sql",
        query="dispatch_message_between",
        find="m.seq > :after and",
        replace="m.received_at > coalesce((select max(p.received_at) from dispatch_messages as p"
        " where p.group_name = :group and p.seq <= :after), '') and",
        test=f"{_DISPATCH}/test_inbox.py::test_h07_equal_timestamps_are_never_lost[sqlite]",
        breaks="X1",
    ),
    Bug(
        id="message-id-not-unique",
        name="a message that comes again is not recognised",
        harm="A channel that delivers twice has the agent answer twice.",
        file="dispatch/inbox.py",
        find="""            if before and (known := self._known(before, content)):
                return known  # The unused number leaves a gap, which readers ignore.
""",
        replace="",
        test=f"{_DISPATCH}/test_inbox.py::test_two_deliveries_of_one_message_that_meet_are_one[sqlite]",
        breaks="X2",
    ),
    Bug(
        id="sent-again-without-keys",
        name="what may have been sent is sent again, key or no key",
        harm="People see a reply twice, on a channel that cannot tell.",
        file="dispatch/channels.py",
        find="if reply.is_ambiguous and channel and not channel.takes_keys:",
        replace="if reply.is_ambiguous and channel is None:",
        test=f"{_DISPATCH}/test_outbox.py"
        "::test_sent_and_not_recorded_is_repeated_or_ambiguous[sqlite-no keys]",
        breaks="X3",
    ),
    Bug(
        id="marked-after-sending",
        name="a reply is marked as on its way only after it was sent",
        harm="A crash in between, and people see the reply twice.",
        file="dispatch/channels.py",
        find="""        if channel is None or not self._outbox.mark_sending(reply):
            return False
        try:
            channel.send(key=reply.key, group=reply.group, text=reply.text)
        except Exception as exc:  # noqa: BLE001 - an error of one channel must not stop the others
            return self._not_sent(reply, channel, exc)
        crash_point("dispatch.send.after_send")
""",
        replace="""        if channel is None:
            return False
        try:
            channel.send(key=reply.key, group=reply.group, text=reply.text)
        except Exception as exc:
            return self._not_sent(reply, channel, exc)
        crash_point("dispatch.send.after_send")
        self._outbox.mark_sending(reply)
""",
        test=f"{_DISPATCH}/test_outbox.py::test_a_crash_while_sending_is_repeated_or_noted"
        "[sqlite-no keys-dispatch.send.after_send]",
        breaks="X3",
    ),
    Bug(
        id="send-with-a-new-key",
        name="every try to send a reply has a key of its own",
        harm="The channel cannot tell a repeat from a new reply, and shows both.",
        file="dispatch/channels.py",
        find="channel.send(key=reply.key, group",
        replace='channel.send(key=f"{reply.key}/{reply.attempts}", group',
        test=f"{_DISPATCH}/test_outbox.py::test_keys_are_stable_over_tries[sqlite-keys]",
        breaks="X3",
    ),
    Bug(
        id="output-not-marked",
        name="sending a reply does not mark its delivery as seen",
        harm="An agent that fails after its first words is handed everything again.",
        file="dispatch/outbox.py",
        find="if batch is not None and batch.number == reply.number:",
        replace="if batch is not None and batch.number != reply.number:",
        test=f"{_DISPATCH}/test_after_output.py::test_h41_a_send_that_has_begun_decides[sqlite]",
        breaks="X4",
    ),
    Bug(
        id="new-message-hurries",
        name="a group that waits after a failure is tried again when a message comes",
        harm="People who write to an agent that is down keep it from coming up.",
        file="stores/queries/dispatch.sql",
        query="dispatch_group_called",
        find="set called_seq =",
        replace="set retry_at = null, called_seq =",
        test=f"{_DISPATCH}/test_deliveries.py"
        "::test_a_failure_waits_and_new_messages_do_not_shorten_that[sqlite]",
        breaks="X5",
    ),
    Bug(
        id="completed-is-a-failure",
        name="a completed delivery counts as a failed attempt of a dead letter",
        harm="After a replay no dead letter can be written, and the agent runs again and again.",
        file="dispatch/deliveries.py",
        find="state == DeliveryState.ROLLED_BACK and error not in NOT_COUNTED",
        replace="error not in NOT_COUNTED",
        test=f"{_DISPATCH}/test_deliveries.py"
        "::test_h44_a_completed_delivery_is_no_failed_attempt_of_a_replayed_letter[sqlite]",
        breaks="X1",
    ),
    Bug(
        id="text-changed",
        name="a text is stripped before it is kept",
        harm="Code that a user pastes loses its indentation on the way to the agent.",
        file="dispatch/inbox.py",
        find='"body": message.text.encode(),',
        replace='"body": message.text.strip().encode(),',
        test=f"{_DISPATCH}/test_inbox.py::test_h45_a_text_arrives_unchanged[sqlite]",
        breaks="X6",
    ),
)
