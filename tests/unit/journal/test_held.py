"""Held: one process at a time, named to the others, and noticed when the file is taken away."""

import os
from pathlib import Path

import pytest

from onceward.errors import Conflict
from onceward.journal.held import hold
from onceward.seams import ManualClock, SystemFiles


def test_the_second_is_told_who_has_it_and_since_when(tmp_path: Path) -> None:
    """And gets it once the first gave it back."""
    path = tmp_path / "locks" / "run.lock"
    held = hold(path, SystemFiles(), ManualClock())
    with pytest.raises(Conflict, match=f"process {os.getpid()} on .* since 2026-01-01") as refused:
        hold(path, SystemFiles(), ManualClock())
    assert str(os.getpid()) in str(refused.value.context["holder"])
    held.release()
    hold(path, SystemFiles(), ManualClock()).release()


def test_a_lock_whose_file_is_gone_or_another_one_is_not_ours(tmp_path: Path) -> None:
    """Somebody else could hold it now; whoever holds the old one must stop."""
    path = tmp_path / "run.lock"
    held = hold(path, SystemFiles(), ManualClock())
    assert held.is_ours()
    path.unlink()
    assert not held.is_ours()
    other = hold(path, SystemFiles(), ManualClock())
    assert not held.is_ours()
    assert other.is_ours()
    held.release()
    other.release()
