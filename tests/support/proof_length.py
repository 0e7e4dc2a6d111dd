"""Lengths: how long a proof goes on, as a slice, as a whole, and for hours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from onceward.client import Onceward

#: A machine that has not reached an event after so many runs cannot reach it.
_RUNS_MAX: Final = 20


def examples_for(ow: Onceward, *, prove: bool, soak: bool, short: int = 60) -> int:
    """Return how many examples a state machine tries; PostgreSQL is asked over a connection.

    `short` is the slice on SQLite. What a machine must come to is tried for longer if need be.
    """
    is_quick = ow.store.engine == "sqlite"
    if soak:
        return 20_000 if is_quick else 1_000
    if prove:
        return 1_000 if is_quick else 300
    return short if is_quick else short // 3


def run_machine(
    made: Callable[[], RuleBasedStateMachine],
    *,
    examples: int,
    steps: int,
    counts: Mapping[Any, int] | None = None,
    must_reach: Iterable[Any] = (),
    **more: Any,
) -> None:
    """Run a state machine, again with another seed while `counts` lacks an event of `must_reach`.

    Which rules an example takes is chance, even with a fixed seed: Hypothesis draws from the
    constants of the modules that happen to be imported.
    """
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )

    def run(number: int) -> None:
        if number:
            seed(number)(made)
        # It takes whatever makes a machine, and says that it takes a class.
        run_state_machine_as_test(made, settings=how)  # type: ignore[arg-type]

    _until_reached(run, {} if counts is None else counts, must_reach)


def run_examples(
    holds: Callable[[], None], *, counts: Mapping[Any, int], must_reach: Iterable[Any]
) -> None:
    """Run a test that Hypothesis gives its examples, again like a state machine."""

    def run(number: int) -> None:
        if number:
            seed(number)(holds)
        holds()

    _until_reached(run, counts, must_reach)


def _until_reached(
    run: Callable[[int], None], reached: Mapping[Any, int], must_reach: Iterable[Any]
) -> None:
    events = list(must_reach)
    for number in range(_RUNS_MAX):
        run(number)
        missing = [event for event in events if not reached.get(event)]
        if not missing:
            return
    pytest.fail(f"never reached in {_RUNS_MAX} runs: {missing}; reached: {reached}")
