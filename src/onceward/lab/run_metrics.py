"""Run metrics: extract numbers from a run's own reports, under the Lab's metric names.

Owns the place of each number in the reports and its validation. Reads no files: an invalid value
counts as missing, never as an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

LABEL_CHARACTERS_MAX: Final = 200
#: Larger integers are not exact in all JSON readers, so records contain none.
INTEGER_MAX: Final = 2**53
#: Field name by JSON key, in the order of a run's summary.
_SUMMARY: Final[Mapping[str, str]] = {
    "syncRating": "sync_rating",
    "syncLabel": "sync_label",
    "meanDriftMs": "mean_drift_ms",
    "maxDriftMs": "max_drift_ms",
    "captionOverall": "caption_overall",
    "captionCoverageRatio": "caption_coverage_ratio",
    "ocrConfidenceMean": "ocr_confidence_mean",
    "proxyScoreOverall": "proxy_score_overall",
}
#: Keys of the snapshot in a feedback entry, in the order of the format.
_SNAPSHOT: Final = (
    "syncRating",
    "captionOverall",
    "proxyScoreOverall",
    "meanDriftMs",
    "maxDriftMs",
    "captionCoverageRatio",
    "ocrConfidenceMean",
)
#: Keys whose values strict readers of feedback accept only as integers from 0 to 100.
_PERCENTS: Final = ("syncRating", "captionOverall", "proxyScoreOverall")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunMetrics:
    """The numbers of a run's reports; None if missing or invalid."""

    #: Rating of audio and video synchronization in the sync report.
    sync_rating: float | None = None
    #: The label of that rating.
    sync_label: str | None = None
    #: Mean drift between audio and video, in milliseconds.
    mean_drift_ms: float | None = None
    #: Maximum drift between audio and video, in milliseconds.
    max_drift_ms: float | None = None
    #: Quality of the captions, 0 to 100.
    caption_overall: float | None = None
    #: Share of the speech that has captions, 0 to 1.
    caption_coverage_ratio: float | None = None
    #: Mean confidence of the caption OCR, 0 to 1.
    ocr_confidence_mean: float | None = None
    #: The run's own score, 0 to 100.
    proxy_score_overall: float | None = None

    @classmethod
    def from_reports(cls, *, sync: object, caption: object, score: object) -> Self:
        """Extract the numbers from parsed reports; pass None for a missing report."""
        return cls(
            sync_rating=_number(sync, "rating"),
            sync_label=_label(_at(sync, "ratingLabel")),
            mean_drift_ms=_number(sync, "metrics", "meanDriftMs"),
            max_drift_ms=_number(sync, "metrics", "maxDriftMs"),
            caption_overall=_percent(_number(caption, "captionQuality", "overall", "score")),
            caption_coverage_ratio=_number(caption, "captionQuality", "coverage", "coverageRatio"),
            ocr_confidence_mean=_number(caption, "captionQuality", "ocrConfidence", "mean"),
            proxy_score_overall=_percent(_number(score, "overall")),
        )

    @classmethod
    def from_summary(cls, summary: Mapping[str, object]) -> Self:
        """Parse the output of `to_summary`; unknown keys and invalid values are ignored."""
        numbers = {
            field: _number(summary, key) for key, field in _SUMMARY.items() if field != "sync_label"
        }
        return cls(sync_label=_label(summary.get("syncLabel")), **numbers)

    def to_summary(self) -> dict[str, float | str | None]:
        """Return all metrics by their JSON keys; missing ones are None."""
        return {key: getattr(self, field) for key, field in _SUMMARY.items()}

    def numbers(self) -> dict[str, float]:
        """Return the numbers by their JSON keys; missing ones are left out."""
        numbers = {key: getattr(self, _SUMMARY[key]) for key in _SNAPSHOT}
        return {key: number for key, number in numbers.items() if number is not None}

    def to_snapshot(self) -> dict[str, float]:
        """Return the numbers for a feedback entry: percentages as integers from 0 to 100."""
        return {
            key: round(min(max(number, 0), 100)) if key in _PERCENTS else number
            for key, number in self.numbers().items()
        }


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(value: object, *keys: str) -> float | None:
    found = _at(value, *keys)
    # True is an int in Python, but not a measurement.
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if isinstance(found, int):
        return found if abs(found) <= INTEGER_MAX else None
    return found if math.isfinite(found) else None


def _percent(share: float | None) -> float | None:
    """Return a share as 0 to 100, rounded to two decimals."""
    if share is None or not math.isfinite(percent := float(share) * 100):
        return None
    return round(percent, 2)


def _label(value: object) -> str | None:
    return value.strip()[:LABEL_CHARACTERS_MAX] or None if isinstance(value, str) else None
