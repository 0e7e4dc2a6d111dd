"""`onceward outcomes`."""

from pathlib import Path
from typing import Any

import pytest

from onceward.client import open as open_handle
from onceward.outcomes import Fresh
from tests.support.command_runner import Run
from tests.support.command_runner import run as run  # noqa: PLC0414 - a fixture

KEY = ("shop.charge", "charge#7")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one ambiguous, one done and one running key."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with open_handle(url) as ow:
        for key in (KEY[1], "charge#8", "charge#9"):
            fresh = ow.outcomes.claim(KEY[0], key, fingerprint="f", owner="host/1")
            assert isinstance(fresh, Fresh)
            if key == KEY[1]:
                ow.outcomes.mark_ambiguous(fresh.fence, ValueError("no answer"))
            if key == "charge#8":
                ow.outcomes.finish(fresh.fence, b'{"id": 8}', ttl_seconds=1e-3)
    return url


def test_list_shows_what_needs_a_decision(run: Run, url: str) -> None:
    """By state, as a table for people and as JSON for machines."""
    ran = run("outcomes", "list", "--state", "ambiguous", "--store", url)
    assert "charge#7" in ran.out
    assert "charge#9" not in ran.out
    found = run("outcomes", "list", "--json", "--store", url).json["outcomes"]
    assert {each["key"]: each["state"] for each in found} == {
        "charge#7": "ambiguous",
        "charge#8": "expired",
        "charge#9": "running",
    }
    ran = run("outcomes", "list", "--state", "lost", "--store", url)
    assert ran.code == 2
    assert "use one of running" in ran.err


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_tables_fit_the_terminal(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """No line is longer than the terminal is wide, and the whole key can be read."""
    monkeypatch.setenv("COLUMNS", columns)
    ran = run("outcomes", "list", "--store", url)
    assert max(map(len, ran.out.splitlines())) <= int(columns)


def test_show_prints_the_complete_record(run: Run, url: str) -> None:
    """State, owner, failure; an unknown key is an error."""
    ran = run("outcomes", "show", *KEY, "--store", url)
    assert "state        ambiguous" in ran.out
    assert "no answer" in ran.out
    shown = run("outcomes", "show", *KEY, "--store", url, "--json").json
    assert shown["failure"]["message"] == "no answer"
    assert shown["effects"] == []
    ran = run("outcomes", "show", "shop.charge", "nothing", "--store", url)
    assert ran.code == 1
    assert "there is no outcome for shop.charge nothing" in ran.err


@pytest.mark.parametrize(
    ("said", "state"), [(["--done", '{"id": 7}'], "done"), (["--not-done"], "free")]
)
def test_reconcile_decides_with_yes(run: Run, url: str, said: list[str], state: str) -> None:
    """The plan changes nothing; the verdict is kept with who and why."""
    words = ["outcomes", "reconcile", *KEY, *said, "--reason", "asked", "--store", url]
    plan = run(*words)
    assert (plan.code, plan.out.startswith("would record: shop.charge charge#7")) == (0, True)
    assert plan.out.endswith("nothing was changed; pass --yes to apply\n")
    assert run(*words, "--json").json["applied"] is False
    assert show(run, url)["state"] == "ambiguous"
    assert run(*words, "--actor", "ann", "--yes").code == 0
    after = show(run, url)
    assert after["state"] == state
    assert (after["note"]["actor"], after["note"]["reason"]) == ("ann", "asked")
    for again in (words, [*words, "--yes"]):
        ran = run(*again)
        assert ran.code == 1
        assert "is not ambiguous; nothing was changed" in ran.err


def show(run: Run, url: str) -> Any:
    return run("outcomes", "show", *KEY, "--store", url, "--json").json


@pytest.mark.parametrize("said", [[], ["--done", "1", "--not-done"], ["--done", "{"]])
def test_reconcile_wants_one_clear_verdict(run: Run, url: str, said: list[str]) -> None:
    """Neither, both, or a result that is not JSON: nothing is changed."""
    ran = run("outcomes", "reconcile", *KEY, *said, "--reason", "x", "--store", url)
    assert ran.code == 2
    assert show(run, url)["state"] == "ambiguous"


@pytest.mark.parametrize("applying", [[], ["--yes"]])
def test_reconcile_of_an_unknown_key_says_so(run: Run, url: str, applying: list[str]) -> None:
    """The plan and the change fail for the same reason: there is no such outcome."""
    words = ["outcomes", "reconcile", "shop.charge", "nothing", "--not-done", "--reason", "x"]
    ran = run(*words, "--store", url, *applying)
    assert ran.code == 1
    assert "there is no outcome for shop.charge nothing" in ran.err


def test_forget_frees_a_key_with_yes(run: Run, url: str) -> None:
    """A running call cannot be forgotten; its plan fails as well."""
    words = ["outcomes", "forget", *KEY, "--reason", "a test", "--store", url]
    assert "is ambiguous, would be forgotten; the next caller runs it" in run(*words).out
    assert show(run, url)["state"] == "ambiguous"
    assert run(*words, "--yes").code == 0
    assert show(run, url)["state"] == "free"
    busy = ["outcomes", "forget", "shop.charge", "charge#9", "--reason", "x", "--store", url]
    for again in (busy, [*busy, "--yes"]):
        assert "charge#9 is running" in run(*again).err


def test_prune_counts_before_it_takes(run: Run, url: str) -> None:
    """The plan names the numbers that pruning then reports."""
    words = ["outcomes", "prune", "--store", url, "--json"]
    assert run(*words).json == {"applied": False, "expired": 1, "removed": 0}
    assert run(*words, "--yes").json == {"applied": True, "expired": 1, "removed": 0}
    assert run("outcomes", "prune", "--yes", "--store", url).out.startswith("0 results erased")
