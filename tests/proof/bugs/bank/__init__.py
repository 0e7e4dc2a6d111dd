"""The bank: every bug that we know how to make, and the canary, which is none."""

from typing import Final

from tests.proof.bugs.bank import (
    access,
    agents,
    connections,
    consumers,
    cursors,
    files,
    holders,
    idle,
    lending,
    lock_races,
    locks,
    memory,
    neighbours,
    outcomes,
    queues,
    runs,
    transactions,
    values,
)
from tests.proof.bugs.bug import Bug

BUGS: Final[tuple[Bug, ...]] = (
    *cursors.BUGS,
    *outcomes.BUGS,
    *files.BUGS,
    *queues.BUGS,
    *access.BUGS,
    *memory.BUGS,
    *locks.BUGS,
    *lock_races.BUGS,
    *connections.BUGS,
    *consumers.BUGS,
    *holders.BUGS,
    *idle.BUGS,
    *lending.BUGS,
    *neighbours.BUGS,
    *runs.BUGS,
    *transactions.BUGS,
    *values.BUGS,
    *agents.BUGS,
)
#: Changes a comment and nothing else: a bank that calls this caught would call anything so.
CANARY: Final = Bug(
    id="canary",
    name="a comment reads differently",
    harm="None.",
    file="stores/queries/cursors.sql",
    query="cursor_checkpoint",
    find="update cursor_positions set",
    replace="update main.cursor_positions set",
    test=cursors.BUGS[0].test,
    breaks="F1",
)
