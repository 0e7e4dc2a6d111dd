"""Verdicts: what a program that judges has said."""

import json
import time
from typing import Any

import pytest

from onceward.agents.review_verdicts import (
    COMMENTS_BYTES_MAX,
    COMMENTS_MAX,
    NoVerdict,
    read_verdict,
    verdict_instruction,
)
from onceward.keys import canonical_json


def read(
    form: str, output: str = "", agent: str = "reviewer", **fields: Any
) -> tuple[str, list[Any]]:
    given = {"exit_code": 0, "has_changed": False, **fields}
    verdict = read_verdict(form, agent, output=output, **given)
    return verdict.status, list(verdict.comments)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('{"verdict": "approved"}', ("approved", [])),
        ('{"status": "changes_requested", "comments": ["a"]}', ("changes_requested", ["a"])),
        ('fine { x }\n```json\n{"verdict": "Approved"}\n```\nbye', ("approved", [])),
        ('{"verdict":"approved"} then {"verdict":"changes requested","comments":"b"}',
         ("changes_requested", ["b"])),
        ('{"verdict":"changes_requested","comments":[{"status":"approved"}]}',
         ("changes_requested", [{"status": "approved"}])),
        ('{"verdict":"approved"}\n{"status":"success","turns":3}', ("approved", [])),
    ],
)  # fmt: skip
def test_json_verdicts(output: str, expected: tuple[str, list[Any]]) -> None:
    """The last object with a verdict counts, wherever it stands in the text."""
    assert read("json", output) == expected


@pytest.mark.parametrize("name", ["result", "response", "text"])
def test_a_verdict_inside_a_tools_own_json_is_found(name: str) -> None:
    """Command lines that print JSON wrap the model's text; the verdict is looked for in there."""
    said = 'All good.\n```json\n{"verdict": "approved", "comments": []}\n```'
    envelope = {"type": "result", "status": "completed", name: said, "cost": 0.1}
    assert read("json", json.dumps(envelope)) == ("approved", [])
    nested = {"type": "item", "message": {"content": said}}
    assert read("json", json.dumps(nested)) == ("approved", [])


@pytest.mark.parametrize(
    "output",
    ["", "no json", "{", '{"verdict": 3}', '{"verdict": "maybe"}', '["verdict"]', "{" * 70_000],
)
def test_no_verdict_is_an_error_that_a_retry_may_mend(output: str) -> None:
    """Nothing is made up when nothing was said."""
    with pytest.raises(NoVerdict) as caught:
        read("json", output)
    assert caught.value.retryable
    assert caught.value.fix


def test_odd_output_takes_no_long_time() -> None:
    """Braces without end are given up on."""
    begun = time.process_time()
    for output in ('{"a":' * 20_000, '{"a": [' * 20_000, "{}" * 200_000):
        with pytest.raises(NoVerdict):
            read("json", output)
    assert time.process_time() - begun < 30


def test_comments_fit_into_a_message_and_a_key() -> None:
    """They are bounded, and hold nothing that has no canonical form."""
    odd = ["x" * 9999, "\ud800", {"big": 2**70}, {"nan": float("nan")}, {"long": "y" * 9999}, 3]
    status, kept = read("json", json.dumps({"verdict": "changes_requested", "comments": odd}))
    assert (status, len(kept)) == ("changes_requested", len(odd))
    canonical_json(kept)
    many = json.dumps({"verdict": "changes_requested", "comments": ["é" * 100] * 300})
    _, kept = read("json", many)
    assert 1 < len(kept) <= COMMENTS_MAX
    assert len(canonical_json(kept)) <= COMMENTS_BYTES_MAX + 1000


def test_changes_without_comments_are_explained_by_the_output() -> None:
    """The agent that makes the changes must know which."""
    assert read("exit", "first\nlast\n", exit_code=1) == ("changes_requested", ["first\nlast"])
    assert read("text", "no tests\nVERDICT: changes_requested")[1][0].startswith("no tests")
    status, comments = read("json", 'slow\n{"verdict":"changes_requested"}')
    assert (status, comments[0].splitlines()[0]) == ("changes_requested", "slow")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("VERDICT: approved", "approved"),
        ("text\n**VERDICT: Approved**\n", "approved"),
        ("VERDICT: approved\nVERDICT: changes requested", "changes_requested"),
        ("> VERDICT: `changes-requested`", "changes_requested"),
    ],
)
def test_text_verdicts(output: str, expected: str) -> None:
    """The last line that says VERDICT counts, dressed up or not."""
    assert read("text", output)[0] == expected


@pytest.mark.parametrize(
    "said",
    ["approved | changes_requested", "approved|changes_requested", "approved/no", "approved?"],
)
def test_h73_a_choice_of_verdicts_is_no_verdict(said: str) -> None:
    """A program that repeats the instruction of its prompt has approved of nothing."""
    with pytest.raises(NoVerdict):
        read_verdict("text", "reviewer", exit_code=0, output=f"VERDICT: {said}", has_changed=False)


def test_text_without_a_verdict_is_refused() -> None:
    """The word in the middle of a sentence is none."""
    with pytest.raises(NoVerdict):
        read("text", "my VERDICT: approved")


@pytest.mark.parametrize(("form", "output"), [("exit", ""), ("json", '{"verdict":"approved"}')])
@pytest.mark.parametrize(
    ("has_changed", "expected"), [(True, "updated"), (False, "no_changes_needed")]
)
def test_all_is_well_from_a_spec_maintainer(
    form: str, output: str, has_changed: bool, expected: str
) -> None:
    """Whether that means *updated* is seen from the files."""
    assert read(form, output, "spec_maintainer", has_changed=has_changed)[0] == expected


def test_a_verdict_of_another_agent_is_none() -> None:
    """A reviewer has nothing to update."""
    with pytest.raises(NoVerdict, match="updated"):
        read("json", '{"verdict": "updated"}')
    assert read("json", '{"verdict": "updated"}', "spec_maintainer")[0] == "updated"


def test_the_instruction_names_the_words() -> None:
    """A program gets the words that it may answer, unless its exit code is the answer."""
    assert '"no_changes_needed"' in verdict_instruction("json", "spec_maintainer")
    assert "VERDICT: approved | changes_requested" in verdict_instruction("text", "reviewer")
    assert verdict_instruction("exit", "reviewer") == ""
