"""Request id index: recent responses in memory, older ones read again from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.errors import KeyReused
from onceward.lab import request_ids
from onceward.lab.request_models import NewFeedback
from tests.support.labs import make_lab

MOST = 3


def test_memory_holds_so_many_answers_and_no_retry_appends_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was answered long ago, in another session, is answered the same."""
    monkeypatch.setattr(request_ids, "ANSWERS_MAX", MOST)
    lab = make_lab(tmp_path)
    said = [NewFeedback(notes=f"n{number}", requestId=f"r{number}") for number in range(12)]
    answers = [lab.add_feedback(each).body for each in said]
    later = make_lab(tmp_path)
    for each in (lab, later):
        size = lab.paths.feedback.stat().st_size
        assert [each.add_feedback(again).body for again in said] == answers
        assert lab.paths.feedback.stat().st_size == size
        known = each._intent_log._requests._responses
        assert len(known) == MOST


def test_a_request_id_that_means_another_thing_is_refused_also_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read again is compared as what is in memory."""
    monkeypatch.setattr(request_ids, "ANSWERS_MAX", 1)
    lab = make_lab(tmp_path)
    for number in range(3):
        lab.add_feedback(NewFeedback(notes=f"n{number}", requestId=f"r{number}"))
    size = lab.paths.feedback.stat().st_size
    with pytest.raises(KeyReused, match="r0"):
        lab.add_feedback(NewFeedback(notes="another", requestId="r0"))
    assert lab.paths.feedback.stat().st_size == size
