"""Lengths: how long a proof goes on, as a slice, as a whole, and for hours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from onceward.handle import Onceward


def examples_for(ow: Onceward, *, prove: bool, soak: bool, short: int = 120) -> int:
    """Return how many examples a state machine tries; PostgreSQL is asked over a connection.

    `short` is the slice: so many that what the machine must come to is sure to happen.
    """
    is_quick = ow.store.engine == "sqlite"
    if soak:
        return 20_000 if is_quick else 1_000
    if prove:
        return 1_000 if is_quick else 300
    return short


def run_machine(
    made: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int, **more: Any
) -> None:
    """Try so many examples of a state machine, of so many steps each, however slow they are."""
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )
    # It takes whatever makes a machine, and says that it takes a class.
    run_state_machine_as_test(made, settings=how)  # type: ignore[arg-type]
