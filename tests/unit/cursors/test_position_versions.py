"""Migrations of positions: step by step, all or none."""

import pytest

from onceward.cursors.position_versions import check_migratable
from onceward.errors import VersionMismatch


@pytest.mark.parametrize(
    ("position", "stored", "wanted", "steps"),
    [
        ("7", 1, 1, set()),
        ("7", 1, 2, {1}),
        ("7", 2, 4, {1, 2, 3, 9}),
        (None, 1, 5, set()),
    ],
)
def test_a_way_without_gaps_is_a_way(
    position: str | None, stored: int, wanted: int, steps: set[int]
) -> None:
    """Every step must be there; without a position there is nothing to migrate."""
    check_migratable("c", position, stored, wanted, dict.fromkeys(steps, str))


@pytest.mark.parametrize(
    ("position", "stored", "wanted", "steps"),
    [
        ("7", 1, 2, set()),
        ("7", 1, 3, {1}),
        ("7", 1, 3, {2}),
        ("7", 2, 1, {1, 2}),
        (None, 2, 1, {1, 2}),
    ],
)
def test_a_missing_or_backward_migration_is_rejected(
    position: str | None, stored: int, wanted: int, steps: set[int]
) -> None:
    """An old worker does not touch what a newer one wrote."""
    with pytest.raises(
        VersionMismatch, match=rf"version {stored},.* worker is at version {wanted}"
    ):
        check_migratable("c", position, stored, wanted, dict.fromkeys(steps, str))
