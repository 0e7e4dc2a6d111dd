"""Counted charges: a shop that counts how often it charged, and claims of its keys."""

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.outcomes import Claim, Fence, Fresh, OutcomeState

DAY = 86_400.0


class Shop:
    """Charges, and counts how often it did."""

    def __init__(self) -> None:
        self.charged: list[Any] = []

    def charge(self, order: Any, amount: int = 10) -> dict[str, Any]:
        self.charged.append(order)
        return {"order": order, "amount": amount, "number": len(self.charged)}


@pytest.fixture
def shop() -> Shop:
    return Shop()


def only(ow: Onceward) -> OutcomeState:
    (found,) = ow.outcomes.list()
    return found.state


def claim(ow: Onceward, key: str = "k", **changed: Any) -> Claim:
    asked = {"fingerprint": "f", "owner": "w1", **changed}
    return ow.outcomes.claim("shop.charge", key, **asked)


def granted(ow: Onceward, key: str = "k", **changed: Any) -> Fence:
    answer = claim(ow, key, **changed)
    assert isinstance(answer, Fresh), answer
    return answer.fence
