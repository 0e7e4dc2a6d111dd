"""Process chat messages one after the other, each from its arrival to the end of its answer.

It runs without agents, on stores that have many groups or a long history.
"""

from bench.messages import COUNTING
from onceward.client import Onceward
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DUAL, NewMessage
from onceward.dispatch.outbox import Outbox

MOMENT = "2026-02-06T12:00:00.000Z"
#: Groups that talk, however many there are.
GROUPS = 10


def message(group: str, number: int) -> NewMessage:
    return NewMessage(group=group, id=f"m{number}", sender="ann", text="hello", timestamp=MOMENT)


def with_groups(ow: Onceward, count: int) -> None:
    """Make so many groups, all of which have said something."""
    with ow.transaction() as tx:
        numbers = COUNTING.format(count)
        tx.execute(
            "insert into dispatch_groups (name, channel, command, trigger_kind, trigger_word,"
            " idle_seconds, hard_seconds, created_at, updated_at)"
            f" {numbers} select 'g' || i, 'chat', '[\"true\"]', 'always', '', 60, 60, ?, ? from n",
            [MOMENT, MOMENT],
        )
        for table, columns in (
            ("onceward_dual_arrivals", "last_arrived"),
            ("onceward_dual_groups", "processed_position"),
        ):
            extra = ", updated_at" if columns == "processed_position" else ""
            moment = f", '{MOMENT}'" if extra else ""
            tx.execute(
                f"insert into {table} (dual_name, group_name, {columns}{extra})"
                f" {numbers} select '{DUAL}', 'g' || i, 0{moment} from n"
            )


def with_history(ow: Onceward, count: int, deliveries: int) -> None:
    """Let so many messages have been said in a few groups, and handed out."""
    body = "x'68656c6c6f'" if ow.store.engine == "sqlite" else "'\\x68656c6c6f'::bytea"
    with ow.transaction() as tx:
        tx.execute(
            "insert into dispatch_messages (channel, group_name, id, seq, changed_seq, sender,"
            f" body, sent_at, received_at) {COUNTING.format(count)}"
            f" select 'chat', 'g' || (1 + i % {GROUPS}), 'old' || i, i, i, {body}, {body},"
            f" '{MOMENT}', '{MOMENT}' from n"
        )
        tx.execute(
            "insert into dispatch_deliveries (group_name, batch_number, state, attempt, first_seq,"
            f" last_seq, started_at, ended_at) {COUNTING.format(deliveries)}"
            f" select 'g' || (1 + i % {GROUPS}), i, 'done', 1, i, i, '{MOMENT}', '{MOMENT}' from n"
        )
        tx.execute(
            "insert into dispatch_outbox (key, group_name, batch_number, position, body, state,"
            f" seq, created_at, sent_at) {COUNTING.format(deliveries)}"
            f" select 'old' || i, 'g' || (1 + i % {GROUPS}), i, i, {body}, 'sent', {count} + i,"
            f" '{MOMENT}', '{MOMENT}' from n"
        )
        last = [DUAL, count + deliveries]
        tx.execute(
            "insert into onceward_dual_counters (dual_name, last_sequence) values (?, ?)", last
        )
        read = [DUAL, count, MOMENT]
        tx.execute(
            "insert into onceward_dual_reads (dual_name, read_position, updated_at)"
            " values (?, ?, ?)",
            read,
        )
        moved = [count, deliveries + 1]
        tx.execute("update onceward_dual_groups set processed_position = ?, last_batch = ?", moved)
        tx.execute("update onceward_dual_arrivals set last_arrived = ?", [count])
    if ow.store.engine == "postgres":
        with ow.transaction() as tx:
            tx.execute("analyze")


class Talk:
    """One message after the other, from its arrival to the end of its answer."""

    def __init__(self, ow: Onceward) -> None:
        self.groups, self.arrivals = Groups(ow.store), Inbox(ow.store)
        self.deliveries, self.outbox = Deliveries(ow.store), Outbox(ow.store)
        self.number = 0

    def __call__(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            name = f"g{1 + self.number % GROUPS}"
            self.arrivals.receive(message(name, self.number))
            self.arrivals.see()
            delivery = self.deliveries.begin(self.groups.show(name))
            assert delivery is not None
            self.outbox.add(delivery, "hello", key=f"{name}/{self.number}", is_stored=True)
            self.deliveries.done(delivery, delivery.batch.position)
