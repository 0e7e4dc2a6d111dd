"""The console under kill -9: in the middle of an action, and the button is pressed again."""

from collections import Counter
from collections.abc import Sequence

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.console.actions import ActionExecutor, OperatorAction
from onceward.console.cursor_actions import CursorMoveResult
from onceward.stores import Transaction
from tests.support.console_over_store import context_of
from tests.support.killed_processes import Ack, Life, Place, Scenario

ROUNDS_MAX = 1000
CURSOR = "c"


class Pressing(Scenario):
    """Every button that was pressed, once or again after a crash, has done its work once."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with open_handle(self.url) as ow:
            ow.cursors.acquire(CURSOR, "w")

    def work(self, life: int, ack: Ack) -> None:  # noqa: ARG002 - the shape
        with open_handle(self.url) as ow:
            actions = ActionExecutor(context_of(ow))
            # The action that the previous process started and did not acknowledge is done first.
            acknowledged = sum(len(each.acks) for each in self.lives)
            for number in range(acknowledged, ROUNDS_MAX):
                press(actions, ow, f"seek-{number}")
                press(actions, ow, f"seek-{number}")
                ack(f"seek-{number}")

    def check(self, lives: Sequence[Life]) -> None:
        acknowledged = {ack for life in lives for ack in life.acks}
        with open_handle(self.url) as ow:
            history = ow.cursors.history(CURSOR, 10_000)
            with ow.transaction() as tx:
                kept = tx.execute("select request_id, outcome from onceward_audit")
        seeks = Counter(entry.reason for entry in history)
        audited = Counter(key for key, outcome in kept if outcome == "done")
        assert set(seeks.values()) <= {1}, seeks.most_common(3)
        assert seeks == audited, (seeks - audited, audited - seeks)
        assert acknowledged <= set(seeks), acknowledged - set(seeks)


def press(actions: ActionExecutor, ow: Onceward, key: str) -> None:
    """Seek to a position of its own, under a key."""

    def seek(_: Transaction) -> CursorMoveResult:
        move = ow.cursors.seek(CURSOR, key, reason=key, actor="ann")
        return CursorMoveResult(move=move, sample=[], as_of="")

    actions.execute(
        OperatorAction(name="cursor.seek", target=CURSOR, key=key, body={"to": key}), seek
    )


SCENARIOS: dict[str, type[Scenario]] = {"console.": Pressing}
