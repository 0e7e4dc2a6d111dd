"""Fix evidence: the ranking of two fixes, one criterion at a time."""

from dataclasses import replace

import pytest

from onceward.memory.related_entities import KnownFix, parse_time, ranked

PLAIN = KnownFix(
    name="fix#err#boom#00000000",
    node_id=1,
    issues=("err#boom",),
    strategy="",
    result="",
    verified=0,
    partial=0,
    failed=0,
    last_verified_at=None,
    verified_by=None,
    last_seen_at="2026-01-01T00:00:00Z",
    docs=(),
)
LATER = "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param({"verified": 2, "failed": 2}, {"verified": 1}, id="more evidence"),
        pytest.param({"verified": 1}, {"verified": 1, "partial": 1}, id="more reliable"),
        pytest.param({"partial": 1}, {"last_seen_at": LATER}, id="partly before untried"),
        pytest.param({}, {"failed": 1, "last_seen_at": LATER}, id="untried before failed"),
        pytest.param(
            {"verified": 1, "last_verified_at": "2026-01-01T23:30:00-01:00"},
            {"verified": 1, "last_verified_at": LATER, "last_seen_at": LATER},
            id="worked last",
        ),
        pytest.param({"result": "applied"}, {"last_seen_at": LATER}, id="applied before proposed"),
        pytest.param({"last_seen_at": LATER}, {}, id="seen last"),
        pytest.param({"node_id": 2}, {}, id="recorded last"),
    ],
)
def test_the_better_fix_comes_first(better: dict[str, object], worse: dict[str, object]) -> None:
    """Each reason decides where those before it are equal, whatever those after it say."""
    first = replace(PLAIN, name="better", **better)  # type: ignore[arg-type]
    second = replace(PLAIN, name="worse", **worse)  # type: ignore[arg-type]
    assert ranked([second, first]) == ranked([first, second]) == (first, second)


def test_times_that_are_none_are_long_ago() -> None:
    """Any text in the place of a time can be compared with any other."""
    times = ["never", "", None, "2026-01-01", "2026-01-01T00:00:00+01:00", "0001-01-01T00:00:00"]
    assert max(times, key=parse_time) == "2026-01-01"
    assert max(map(parse_time, times)) == parse_time("2026-01-01T00:00:00Z")
