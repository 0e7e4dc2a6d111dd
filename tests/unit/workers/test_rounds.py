"""Rounds: a thread that goes round, survives its failures, and stops when told."""

from __future__ import annotations

import threading

import pytest

from onceward.workers.rounds import rounds


def test_it_goes_round_until_the_end() -> None:
    """A hurry begins the next round at once; after the block there is none."""
    passed = threading.Semaphore(0)

    def go() -> float:
        passed.release()
        return 3600.0

    with rounds("test", go) as hurry:
        assert passed.acquire(timeout=60)
        hurry()
        assert passed.acquire(timeout=60)
    hurry()
    assert not [each for each in threading.enumerate() if each.name == "onceward-test"]


def test_a_failure_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is told, and the next round begins."""
    passed = threading.Semaphore(0)

    def go() -> float:
        passed.release()
        raise RuntimeError

    with rounds("test", go) as hurry:
        assert passed.acquire(timeout=60)
        hurry()
        assert passed.acquire(timeout=60)
    assert "round failed of onceward-test" in caplog.text
