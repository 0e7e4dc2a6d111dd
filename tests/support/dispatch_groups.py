"""Dispatch groups: a stored group, a channel group, and the states of their deliveries."""

import pytest

from onceward.client import Onceward
from onceward.dispatch.models import DeliveryState
from tests.support.dispatcher_parts import Talk


@pytest.fixture
def talk(ow: Onceward) -> Talk:
    found = Talk(ow)
    found.group()
    found.group("far", channel="fake")
    return found


def states(talk: Talk, group: str = "team") -> list[DeliveryState]:
    """Return what became of a group's deliveries, in their order."""
    return [each.state for each in reversed(talk.operators.deliveries(group))]
