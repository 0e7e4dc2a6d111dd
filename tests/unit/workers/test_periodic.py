"""Rounds: a thread that goes round, survives its failures, and stops on request."""

from __future__ import annotations

import threading

import pytest

from onceward.workers.periodic import repeating


def test_it_goes_round_until_the_end() -> None:
    """A run_now begins the next round at once; after the block there is none."""
    passed = threading.Semaphore(0)

    def go() -> float:
        passed.release()
        return 3600.0

    with repeating("test", go) as run_now:
        assert passed.acquire(timeout=60)
        run_now()
        assert passed.acquire(timeout=60)
    run_now()
    assert not [each for each in threading.enumerate() if each.name == "onceward-test"]


def test_a_failure_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next round begins."""
    passed = threading.Semaphore(0)

    def go() -> float:
        passed.release()
        raise RuntimeError

    with repeating("test", go) as run_now:
        assert passed.acquire(timeout=60)
        run_now()
        assert passed.acquire(timeout=60)
    assert "periodic task failed: onceward-test" in caplog.text
