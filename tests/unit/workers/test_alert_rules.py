"""Alert rules in `onceward.toml`: what they mean, and what is said when they are wrong."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from onceward.errors import FileMissing, InvalidArgument
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alert_rules import find_config, parse_rules, read_rules

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```toml(?: \S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OFF = "[alerts_defaults]\nenabled = false\n"


def parsed(text: str) -> tuple[object, ...]:
    return parse_rules(tomllib.loads(text))


def test_a_rule_says_all_it_needs() -> None:
    """Every field, as it is written."""
    text = """
        [[alerts]]
        name = "dead leads"
        kind = "dead"
        cursor = "lead_*"
        threshold = 5
        for = 60
        clear = 1.5
        window = 900
        webhook = "https://hook.test/x"
    """
    (rule,) = parse_rules(tomllib.loads(OFF + text))
    assert (rule.name, rule.kind, rule.cursor) == ("dead leads", "dead", "lead_*")
    assert (rule.threshold, rule.for_seconds, rule.clear) == (5.0, 60.0, 1.5)
    assert (rule.window_seconds, rule.webhook) == (900.0, "https://hook.test/x")
    assert "hook.test" not in repr(rule)


def test_what_is_left_out_has_a_meaning() -> None:
    """All cursors, at once, clear at half of a lag and at none of the rest."""
    lag, errors = parse_rules(
        tomllib.loads(
            f"{OFF}[[alerts]]\nkind = 'lag'\nthreshold = 60\n"
            "[[alerts]]\nkind = 'errors'\nthreshold = 3\n"
        )
    )
    assert (lag.name, lag.cursor, lag.for_seconds, lag.clear) == ("lag *", "*", 0.0, 30.0)
    assert (errors.clear, errors.webhook) == (0.0, None)


def test_a_rule_may_wait_for_any_number_of_parked_messages() -> None:
    """All of them are counted, so every threshold can be reached."""
    said = f"{OFF}[[alerts]]\nkind = 'parked'\nthreshold = 50_000\n"
    (parked,) = parse_rules(tomllib.loads(said))
    assert parked.threshold == 50_000


def test_shipped_rules_are_there_unless_switched_off() -> None:
    """With one webhook for all that name none."""
    assert parse_rules({}) == DEFAULT_RULES
    assert parse_rules(tomllib.loads(OFF)) == ()
    found = parse_rules(tomllib.loads('[alerts_defaults]\nwebhook = "http://hook.test"'))
    assert len(found) == len(DEFAULT_RULES)
    assert {rule.webhook for rule in found} == {"http://hook.test"}


RULE = "[[alerts]]\nkind = 'lag'\nthreshold = 60\n"


@pytest.mark.parametrize(
    ("text", "field", "fix"),
    [
        ("[[alert]]\n", "alert", "correct its name"),
        ("alerts = 3", "alerts", "[[alerts]]"),
        ("alerts = [1]", "alerts", "[[alerts]]"),
        ("alerts_defaults = 1", "alerts_defaults", "[alerts_defaults]"),
        ("[alerts_defaults]\nenabled = 'no'", "alerts_defaults.enabled", "enabled = false"),
        ("[alerts_defaults]\nenable = false", "alerts_defaults.enable", "correct its name"),
        ("[alerts_defaults]\nwebhook = 'x'", "alerts_defaults.webhook", "https://"),
        ("[[alerts]]\nthreshold = 1", "alerts[0].kind", 'kind = "lag"'),
        ("[[alerts]]\nkind = 'late'\nthreshold = 1", "alerts[0].kind", 'kind = "lag"'),
        ("[[alerts]]\nkind = 'lag'", "alerts[0].threshold", "threshold = 300"),
        ("[[alerts]]\nkind = 'lag'\nthreshold = '60'", "alerts[0].threshold", "without quotes"),
        ("[[alerts]]\nkind = 'lag'\nthreshold = true", "alerts[0].threshold", "threshold = 300"),
        ("[[alerts]]\nkind = 'lag'\nthreshold = -1", "alerts[0].threshold", "threshold = 300"),
        ("[[alerts]]\nkind = 'lag'\nthreshold = nan", "alerts[0].threshold", "threshold = 300"),
        (f"{RULE}for = 'long'", "alerts[0].for", "for = 300"),
        (f"{RULE}for = 1e12", "alerts[0].for", "for = 300"),
        (f"{RULE}clear = 61", "alerts[0].clear", "clear = 60"),
        (f"{RULE}window = 60", "alerts[0].window", "omit it"),
        (f"{RULE}cursor = ''", "alerts[0].cursor", "cursor ="),
        (f"{RULE}cursor = 7", "alerts[0].cursor", "cursor ="),
        (f"{RULE}webhook = 'ftp://x'", "alerts[0].webhook", "https://"),
        (f"{RULE}webhook = 'https://'", "alerts[0].webhook", "https://"),
        (f"{RULE}webhook = 'https://a/ b'", "alerts[0].webhook", "https://"),
        (f"{RULE}webhook = 'https://a:b/'", "alerts[0].webhook", "https://"),
        (f"{RULE}colour = 'red'", "alerts[0].colour", "correct its name"),
        (f"{RULE}{RULE}", "alerts[1].name", "a unique name"),
        (f"{RULE}name = 'cursor behind'", "alerts[0].name", "a unique name"),
    ],
)
def test_a_mistake_names_the_field_and_the_fix(text: str, field: str, fix: str) -> None:
    """The error says where to look and what to write."""
    with pytest.raises(InvalidArgument) as caught:
        parsed(text)
    assert caught.value.context["field"] == field
    assert caught.value.message.startswith(f"{field}: ")
    assert fix in caught.value.fix


def test_a_bad_address_is_not_repeated() -> None:
    """It may hold a secret."""
    with pytest.raises(InvalidArgument) as caught:
        parsed(f"{RULE}webhook = 'hooks.test/T0KEN'")
    assert "T0KEN" not in str(caught.value.to_dict())


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A working directory and a home, both empty."""
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("ONCEWARD_HOME", str(home))
    return here, home


def test_the_file_is_looked_for_where_people_put_it(places: tuple[Path, Path]) -> None:
    """The one that is named, else the one here, else the one at home, else none."""
    here, home = places
    assert find_config() is None
    assert read_rules() == DEFAULT_RULES
    (home / "onceward.toml").write_text(OFF)
    assert find_config() == home / "onceward.toml"
    assert read_rules() == ()
    (here / "onceward.toml").write_text(f"{OFF}{RULE}")
    assert [rule.name for rule in read_rules()] == ["lag *"]
    (here / "other.toml").write_text("")
    assert read_rules("other.toml") == DEFAULT_RULES


def test_a_file_that_cannot_be_read_is_named(places: tuple[Path, Path]) -> None:
    """Missing, not TOML, or wrong: the message says which file."""
    here, _ = places
    with pytest.raises(FileMissing, match="nope.toml"):
        read_rules("nope.toml")
    (here / "onceward.toml").write_text("x = 1\nalerts = [\n")
    with pytest.raises(InvalidArgument, match="onceward.toml is not valid TOML: .*"):
        read_rules()
    (here / "onceward.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="onceward.toml is not valid TOML"):
        read_rules()
    (here / "onceward.toml").write_text("[[alerts]]\nkind = 'lag'")
    with pytest.raises(InvalidArgument, match=r"onceward.toml: alerts\[0\].threshold: is missing"):
        read_rules()


@pytest.mark.parametrize("page", ["reference/configuration.md", "how-to/set-alerts.md"])
def test_rules_in_the_docs_are_rules(page: str) -> None:
    """What is shown can be copied."""
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for block in blocks:
        assert parse_rules(tomllib.loads(block))
