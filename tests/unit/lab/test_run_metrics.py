"""Run metrics: valid numbers from reports; every other value is ignored."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.keys import compact_json
from onceward.lab.run_metrics import RunMetrics

SYNC = {"rating": 82, "ratingLabel": "good", "metrics": {"meanDriftMs": 41.5, "maxDriftMs": 120}}
CAPTION = {
    "captionQuality": {
        "overall": {"score": 0.8765432},
        "coverage": {"coverageRatio": 0.95},
        "ocrConfidence": {"mean": 0.91},
    }
}
SCORE = {"overall": 0.29}
FULL = RunMetrics(
    sync_rating=82,
    sync_label="good",
    mean_drift_ms=41.5,
    max_drift_ms=120,
    caption_overall=87.65,
    caption_coverage_ratio=0.95,
    ocr_confidence_mean=0.91,
    proxy_score_overall=29.0,
)


def test_numbers_come_from_their_places() -> None:
    """Each report gives its numbers; shares become 0 to 100 without binary noise."""
    assert RunMetrics.from_reports(sync=SYNC, caption=CAPTION, score=SCORE) == FULL
    assert RunMetrics.from_reports(sync=None, caption=None, score=None) == RunMetrics()
    assert 0.29 * 100 != 29.0


def test_the_summary_has_every_key_and_comes_back() -> None:
    """All eight keys in their order, null for what is not known, and the same when read back."""
    assert list(FULL.to_summary()) == [
        *("syncRating", "syncLabel", "meanDriftMs", "maxDriftMs"),
        *("captionOverall", "captionCoverageRatio", "ocrConfidenceMean", "proxyScoreOverall"),
    ]
    assert set(RunMetrics().to_summary().values()) == {None}
    assert len(RunMetrics().to_summary()) == 8
    for each in (FULL, RunMetrics(), RunMetrics(sync_label="bad", max_drift_ms=0)):
        assert RunMetrics.from_summary(json.loads(json.dumps(each.to_summary()))) == each
    assert RunMetrics.from_summary({}) == RunMetrics()


def test_a_strange_summary_gives_what_is_usable() -> None:
    """A record of another writer is read as far as it goes."""
    strange = {"syncRating": "82", "syncLabel": 7, "meanDriftMs": True, "maxDriftMs": 3, "more": 1}
    assert RunMetrics.from_summary(strange) == RunMetrics(max_drift_ms=3)


def test_the_snapshot_leaves_out_what_is_not_known() -> None:
    """Seven numbers at most, in the order of the feedback record, percentages whole."""
    assert list(FULL.to_snapshot().items()) == [
        ("syncRating", 82),
        ("captionOverall", 88),
        ("proxyScoreOverall", 29),
        ("meanDriftMs", 41.5),
        ("maxDriftMs", 120),
        ("captionCoverageRatio", 0.95),
        ("ocrConfidenceMean", 0.91),
    ]
    assert FULL.numbers() == {**FULL.to_snapshot(), "captionOverall": 87.65}
    odd = RunMetrics(sync_rating=-3, caption_overall=1e300).to_snapshot()
    assert odd == {"syncRating": 0, "captionOverall": 100}
    assert RunMetrics(sync_label="good").to_snapshot() == {}
    assert RunMetrics(sync_rating=0, mean_drift_ms=0.0).to_snapshot() == {
        "syncRating": 0,
        "meanDriftMs": 0.0,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        True,
        False,
        None,
        "82",
        "",
        [],
        {},
        [1],
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        2**53 + 1,
        -(2**53) - 1,
        2**64 - 1,
        {"score": 1},
    ],
)
def test_what_is_no_number_is_not_known(wrong: object) -> None:
    """Booleans, text, lists, NaN and infinity are no measurements."""
    sync = {"rating": wrong, "ratingLabel": [wrong], "metrics": {"meanDriftMs": wrong}}
    caption = {"captionQuality": {"overall": {"score": wrong}, "coverage": wrong}}
    assert (
        RunMetrics.from_reports(sync=sync, caption=caption, score={"overall": wrong})
        == RunMetrics()
    )
    assert RunMetrics.from_reports(sync=wrong, caption=wrong, score=wrong) == RunMetrics()
    shapes = {"metrics": wrong, "captionQuality": wrong}
    assert RunMetrics.from_reports(sync=shapes, caption=shapes, score=shapes) == RunMetrics()


@pytest.mark.parametrize("number", [2**53, -(2**53), 1e300, 1e16])
def test_what_a_record_can_hold_is_a_number(number: float) -> None:
    """An integer that every reader reads alike stays; a float is one anyway."""
    found = RunMetrics.from_reports(sync={"rating": number}, caption=None, score=None)
    assert found == RunMetrics(sync_rating=number)
    assert compact_json(found.to_summary())


def test_a_number_too_large_to_be_a_share_is_not_known() -> None:
    """What would become infinite is left out."""
    found = RunMetrics.from_reports(sync=None, caption=None, score={"overall": 1.7e308})
    assert found.proxy_score_overall is None


def test_labels_are_short_text() -> None:
    """A label is cut and trimmed; an empty one is none."""
    labels = {" fine ": "fine", "": None, "  ": None, "x" * 900: "x" * 200}
    for given_label, expected in labels.items():
        sync = {"ratingLabel": given_label}
        found = RunMetrics.from_reports(sync=sync, caption=None, score=None)
        assert found.sync_label == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("rating", "ratingLabel", "metrics", "meanDriftMs", "maxDriftMs", "overall"),
                    *(
                        "captionQuality",
                        "score",
                        "coverage",
                        "coverageRatio",
                        "ocrConfidence",
                        "mean",
                    ),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(sync=json_values, caption=json_values, score=json_values)
def test_any_report_gives_metrics_that_json_can_hold(
    sync: object, caption: object, score: object
) -> None:
    """Whatever the reports hold, the result is numbers or nothing."""
    found = RunMetrics.from_reports(sync=sync, caption=caption, score=score)
    json.dumps([found.to_summary(), found.to_snapshot()], allow_nan=False)
    assert RunMetrics.from_summary(found.to_summary()) == found
