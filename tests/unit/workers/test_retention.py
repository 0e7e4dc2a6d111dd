"""`[keep]` in onceward.toml: what it may say, and how a mistake in it is reported."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from onceward.errors import InvalidArgument
from onceward.workers.alert_rules import read_rules
from onceward.workers.retention import FIELDS, Retention, parse_retention, read_retention


def parsed(text: str) -> Retention:
    return parse_retention(tomllib.loads(text))


def test_what_is_left_out_is_as_shipped() -> None:
    """Undecided dead letters are kept for ever by default."""
    assert parsed("") == Retention() == parsed("[keep]")
    assert Retention().dead_letters_days is None


def test_every_field_can_be_set() -> None:
    """Each is a number of days."""
    text = "[keep]\n" + "\n".join(f"{name} = {n + 1}" for n, name in enumerate(FIELDS))
    assert parsed(text) == Retention(**{name: n + 1.0 for n, name in enumerate(FIELDS)})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("keep = 3", "keep"),
        ("[keep]\nsample_days = 3", "keep.sample_days"),
        ("[keep]\nsamples_days = 0", "keep.samples_days"),
        ("[keep]\nsamples_days = -1", "keep.samples_days"),
        ("[keep]\nsamples_days = '3'", "keep.samples_days"),
        ("[keep]\nsamples_days = nan", "keep.samples_days"),
        ("[keep]\ndead_letters_days = 1e9", "keep.dead_letters_days"),
    ],
)
def test_a_mistake_is_reported_with_its_field(text: str, field: str) -> None:
    """Nothing starts with an unintended retention."""
    with pytest.raises(InvalidArgument) as refused:
        parsed(text)
    assert refused.value.context["field"] == field
    assert refused.value.fix


def test_one_file_holds_rules_and_retention(tmp_path: Path) -> None:
    """Alerts read it too, and a mistake names the file."""
    file = tmp_path / "onceward.toml"
    file.write_text("[keep]\nhistory_days = 5\n")
    assert read_retention(str(file)).history_days == 5
    assert read_rules(str(file))
    file.write_text("[keep]\nhistory_days = 'x'\n")
    with pytest.raises(InvalidArgument, match="onceward.toml: keep.history_days"):
        read_retention(str(file))
