"""Crash loop: stop a scenario before each of its disk operations, and check every possible disk.

Contains the loop, and records what a scenario acknowledged before it was stopped. The caller checks
the invariants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from onceward.system.crash_points import Crashed
from onceward.testing.crash_files import CrashFiles
from onceward.testing.crash_states import STATES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceward.system import Files

Item = TypeVar("Item")


class Acks(list[Item], Generic[Item]):
    """What a scenario acknowledged to its caller so far, in order."""

    def ack(self, item: Item) -> None:
        """Declare that this item survives any crash from now on."""
        self.append(item)


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashCount:
    """How much a crash loop tried; a test should assert a minimum."""

    #: Operations before which the scenario was stopped, plus one for its end.
    steps: int
    #: Simulated disks that were checked.
    states: int


def run_with_crash_at_every_step(  # noqa: PLR0913 - a question and four optional limits
    scenario: Callable[[Files, Acks[Item]], None],
    check: Callable[[CrashFiles, Acks[Item]], None],
    *,
    start: Callable[[], CrashFiles] = CrashFiles,
    seed: int = 0,
    states_max: int = STATES_MAX,
    steps_max: int = 1000,
) -> CrashCount:
    """Run the scenario until operation 1, 2, 3, … and check every disk a crash may leave there.

    The last run is not stopped, and a crash after its end is checked too. Each run begins with a
    file system from `start`. The scenario must do the same every time, in one thread.
    """
    states = 0
    for step in range(1, steps_max + 1):
        files = start()
        acks: Acks[Item] = Acks()
        stopped_before = _run_until(step, scenario, files, acks)
        for state in files.crashes(limit=states_max, seed=seed):
            _check(check, state, acks, stopped_before or "its end")
            states += 1
        if not stopped_before:
            return CrashCount(steps=step, states=states)
    message = f"the scenario was still running after {steps_max} operations"
    raise AssertionError(message)


def _run_until(
    step: int,
    scenario: Callable[[Files, Acks[Item]], None],
    files: CrashFiles,
    acks: Acks[Item],
) -> str:
    """Stop before operation `step`; return that operation's description, or "" at the end."""
    begun: list[str] = []

    def stop(what: str, _number: int) -> None:
        begun.append(what)
        if len(begun) >= step:  # a killed process runs no cleanup
            raise Crashed(what)

    files.on_operation = stop
    try:
        scenario(files, acks)
    except Crashed:
        if len(begun) < step:
            raise
    files.on_operation = None
    return begun[step - 1] if len(begun) >= step else ""


def _check(
    check: Callable[[CrashFiles, Acks[Item]], None],
    state: CrashFiles,
    acks: Acks[Item],
    stopped_before: str,
) -> None:
    try:
        check(state, acks)
    except BaseException as exc:
        exc.add_note(f"stopped before {stopped_before}, having acknowledged {list(acks)}")
        exc.add_note(state.description)
        raise
