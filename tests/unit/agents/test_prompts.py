"""Prompts: the text that a program gets."""

from typing import Any

import pytest

from onceward.agents.prompts import PromptRequest, changes, prompt


def request(**fields: Any) -> PromptRequest:
    given = {"action": "implement", "task_id": "T-0042", "inputs": {"goal": "do it"}}
    return PromptRequest(**{**given, **fields})


def test_the_standard_prompt_says_all_there_is() -> None:
    """Goal, changes, further inputs, outputs, the check and the form of the verdict."""
    text = prompt(
        request(
            action="implement_changes",
            inputs={
                "goal": "do it",
                "language": "Python",
                "limits": {"seconds": 3},
                "round": 2,
                "previous": "ab" * 32,
                "changes": {"comments": ["too slow", {"path": "a.py", "line": 3, "comment": "x"}]},
            },
            expected_outputs=[
                {"path": "a.py", "required": True, "description": "the module"},
                {"path": "b.md", "required": False},
            ],
            check="pytest -q",
            verdict="Say yes.",
        )
    )
    assert text == (
        "Make the requested changes in this working directory, then stop.\n\n"
        "Task T-0042 (round 2): do it\n\n"
        "Changes requested by the last review:\n- too slow\n- a.py:3: x\n\n"
        'Task inputs:\n- language: Python\n- limits: {"seconds":3}\n\n'
        "Files that must exist when you are done:\n- a.py: the module\n- b.md (optional)\n\n"
        "This command then checks your work: pytest -q\n\n"
        "Say yes.\n"
    )


def test_what_there_is_not_is_not_mentioned() -> None:
    """A plain goal makes a short prompt."""
    assert prompt(request()).endswith("then stop.\n\nTask T-0042: do it\n")


def test_a_template_is_filled_in_once() -> None:
    """Placeholders inside of what was put in, and braces of code, stay as they are."""
    template = 'T={task_id} A={action} R={round} G={goal} {"a": {}} {unknown} {changes}'
    asked = request(inputs={"goal": "write {task_id}", "changes": ["one", "two"]})
    expected = 'T=T-0042 A=implement R=1 G=write {task_id} {"a": {}} {unknown} - one\n- two'
    assert prompt(asked, template) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, []),
        ("", []),
        ({}, []),
        ("text", ["text"]),
        (["a", {"message": "b"}], ["a", "b"]),
        ({"comments": "one"}, ["one"]),
        ({"comments": [{"severity": 3}]}, ['{"severity":3}']),
        ({"reason": "x"}, ['{"reason":"x"}']),
        (7, ["7"]),
    ],
)
def test_requested_changes_may_have_any_form(given: object, expected: list[str]) -> None:
    """Whatever a reviewer sent becomes a list of texts."""
    assert changes(given) == expected
