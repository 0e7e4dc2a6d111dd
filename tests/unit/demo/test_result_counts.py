"""The tally: what counts as lost, and what as doubled."""

from collections import Counter

import pytest

from onceward.demo.result_counts import Effects, Row, total


@pytest.mark.parametrize(
    ("wanted", "found", "lost", "doubled"),
    [
        ("ab", "ab", 0, 0),
        ("ab", "a", 1, 0),
        ("ab", "abb", 0, 1),
        ("ab", "aaab", 0, 2),
        ("ab", "", 2, 0),
        ("a", "ax", 0, 1),  # An effect of nothing is one too many.
        ("ab", "aa", 1, 1),  # The one does not make up for the other.
        ("aab", "ab", 0, 0),  # What was tried twice wants one effect.
    ],
)
def test_each_wanted_effect_is_there_once(wanted: str, found: str, lost: int, doubled: int) -> None:
    """Fewer is lost, more is doubled, and the two are never set off against each other."""
    effects = Effects(wanted=Counter(wanted), found=Counter(found))
    assert (effects.lost, effects.doubled) == (lost, doubled)


def row(part: str, **numbers: int) -> Row:
    names = ("done", "killed", "retried", "taken_over", "refused", "lost", "doubled")
    return Row(part=part, **{name: numbers.get(name, 0) for name in names})


def test_the_total_adds_up_and_keeps_no_loss_quiet() -> None:
    """One part that lost something spoils the whole."""
    found = total([row("a", done=2, killed=1), row("b", done=3, lost=1)])
    assert (found.done, found.killed, found.lost, found.is_kept) == (5, 1, 1, False)
    assert total([row("a", done=1), row("b")]).is_kept
