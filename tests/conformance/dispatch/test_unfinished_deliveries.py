"""`onceward status` reports unfinished conversations: pending deliveries and dead letters."""

import shlex

import pytest

from onceward.cli.status import conversation_findings
from onceward.client import Onceward
from onceward.dispatch.models import LEASE
from tests.support.command_runner import Run, run
from tests.support.dispatcher_parts import Talk

__all__ = ["run"]


@pytest.fixture
def talk(ow: Onceward) -> Talk:
    found = Talk(ow)
    found.group()
    return found


def report(ow: Onceward) -> list[tuple[str, list[str]]]:
    """Return the kind and the commands of each finding."""
    return [(each.kind, list(each.settle)) for each in conversation_findings(ow)]


def test_messages_wait_while_no_dispatcher_runs(ow: Onceward, talk: Talk) -> None:
    """A running dispatcher hands them out, unless the group is paused."""
    assert report(ow) == []
    talk.hear("hello")
    ((kind, settle),) = report(ow)
    assert kind == "pending delivery"
    assert settle == ["onceward dispatch serve"]
    assert ow.cursors.acquire(LEASE, "host/1/a", 60) is not None
    assert report(ow) == []
    talk.groups.set("team", is_paused=True)
    ((kind, settle),) = report(ow)
    assert settle == ["onceward dispatch groups set team --resume"]


def test_a_delivery_that_no_dispatcher_finishes_is_pending(ow: Onceward, talk: Talk) -> None:
    """Its dispatcher died; the next one takes it over."""
    talk.hear("hello")
    talk.begun("team")
    ((kind, settle),) = report(ow)
    assert (kind, settle) == ("pending delivery", ["onceward dispatch serve"])


def test_dead_letters_name_the_command_that_redrives_them(
    ow: Onceward, talk: Talk, run: Run, ow_url: str
) -> None:
    """The command runs as printed; the report ends with 1, and 0 when nothing is left."""
    assert run("status", "--store", ow_url).code == 0
    talk.hear("hello")
    talk.failed(talk.begun("team"), is_final=True)
    reported = run("status", "--store", ow_url, "--json")
    (finding,) = reported.json["findings"]
    assert (reported.code, finding["kind"]) == (1, "dead letters")
    assert run(*shlex.split(finding["settle"][0])[1:]).code == 0
    assert [kind for kind, _ in report(ow)] == ["pending delivery"]
