"""Console outcome requests: the outcome routes over a store, and claimed keys to request."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.outcomes_http import outcomes_router
from onceward.outcomes import Fence, Fresh
from onceward.testing.moving_time import MovingTime
from tests.support.console_over_store import asking_at
from tests.support.console_requests import Asking

SCOPE = "shop.charge"
WHICH = {"scope": SCOPE, "key": "k"}


def asking_of(ow: Onceward, *, is_read_only: bool = False) -> Asking:
    return asking_at(outcomes_router, ow, is_read_only=is_read_only)


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    return asking_of(ow)


def granted(ow: Onceward, key: str = "k", scope: str = SCOPE, **changed: Any) -> Fence:
    asked = {"fingerprint": "f", "owner": "host/1", **changed}
    answer = ow.outcomes.claim(scope, key, **asked)
    assert isinstance(answer, Fresh), answer
    return answer.fence


def silent(ow: Onceward, ow_time: MovingTime, key: str = "k", **changed: Any) -> Fence:
    fence = granted(ow, key, **changed)
    ow_time.advance(seconds=61)
    return fence


def beside(call: Callable[[], object]) -> None:
    """Run the call in another thread, in the middle of what this thread does."""
    other = threading.Thread(target=call)
    other.start()
    other.join(60)
    assert not other.is_alive()


def shown(asking: Asking, key: str = "k") -> Any:
    return asking.body("/api/outcomes/show", scope=SCOPE, key=key)


def history_of(asking: Asking, key: str = "k") -> list[str]:
    return [each["what"] for each in shown(asking, key)["attempts"]]


def keys(asking: Asking, **query: Any) -> list[str]:
    return [each["key"] for each in asking.body("/api/outcomes", **query)["items"]]
