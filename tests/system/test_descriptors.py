"""Processes with more open descriptors than `select` can take."""

from __future__ import annotations

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.many_descriptors import MESSAGES
from tests.support.module_processes import run_module


@pytest.mark.prove
def test_h58_more_than_1024_open_files_change_nothing(ow_url: str, evidence: Evidence) -> None:
    """Calls, workers and captured commands do their work as ever."""
    reported = run_module("tests.support.many_descriptors", ow_url, seconds_max=200)
    lowest = reported.pop("lowest")
    assert lowest > 1_024
    assert reported == {
        "called": [1, 1, 2, 2],
        "worked": list(range(MESSAGES + 1)),
        "captured": True,
    }
    evidence.record(
        Entry(
            campaign="calls, workers and captured commands above 1,024 open descriptors",
            layer="neighbours",
            claims=("D1",),
            engine="sqlite" if ow_url.startswith("sqlite") else "postgres",
            schedules=1,
            faults={"descriptor above 1,024": lowest},
            work=MESSAGES + 1 + len(reported["called"]),
        )
    )
