"""The reference: what exists is in it, as the code says it, and what is new is asked for."""

import ast
import difflib
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from docs.make import (
    reference,
    reference_errors,
    reference_events,
    reference_http,
    reference_metrics,
    reference_settings,
    reference_tables,
    source,
)
from docs.make.regions import Unfit, cells, filled, kept_table, region, table
from onceward import errors
from onceward.cli import doctor, keys
from onceward.cli.main import exit_code, main
from onceward.system import log_events
from onceward.workers import metrics

LOGGED = {**log_events.ACTIONS, **log_events.MEMORY, **log_events.DISPATCH}


def check(path: Path, wanted: str) -> None:
    """Fail with what the page lacks, and what it says though it is not so."""
    found = path.read_text() if path.exists() else ""
    if found == wanted:
        return
    lines = difflib.unified_diff(found.splitlines(), wanted.splitlines(), n=0, lineterm="")
    changed = [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]
    name = path.relative_to(source.ROOT)
    shown = "\n".join(changed[:40])
    pytest.fail(f"{name} is not what the code says; run `make docs`:\n{shown}", pytrace=False)


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_says_what_the_code_says(name: str) -> None:
    """Every command, route, error, event, metric, setting, table and key is on its page."""
    check(reference.page(name), reference.made(name))


def test_key_vectors_for_other_languages_are_what_the_code_gives() -> None:
    """The file holds every vector, computed."""
    check(*reference.vectors())


# --- what a page is made of is all there is -------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> dict[str, reference_events.Seen]:
    """What the source logs; looked for once."""
    return reference_events.seen()


def test_every_event_is_listed(seen: dict[str, reference_events.Seen]) -> None:
    """What the source logs is in the registry, and nothing else is."""
    unlisted = {name: seen[name].places for name in seen if name not in LOGGED}
    assert not unlisted, f"list them in src/onceward/system/log_events.py: {unlisted}"
    assert set(LOGGED) == set(seen), "no module logs these any more"


@pytest.mark.parametrize("name", LOGGED)
def test_an_event_has_the_level_and_the_facts_that_are_logged(
    name: str, seen: dict[str, reference_events.Seen]
) -> None:
    """The registry tells what stands at the place where it is logged."""
    listed = LOGGED[name]
    assert set(re.findall(r"\w+", listed.level)) - {"or"} <= seen[name].levels
    assert seen[name].facts <= set(listed.facts)


@pytest.mark.parametrize(
    "kind", list(reference_errors.all_errors()), ids=lambda kind: kind.__name__
)
def test_an_error_ends_a_command_as_listed(
    kind: type[errors.OncewardError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code on the page is the one that the command line gives."""

    def fail(*_: object) -> None:
        error = kind.__new__(kind)
        errors.OncewardError.__init__(error)
        raise error

    monkeypatch.setattr(keys, "json_argument", fail)
    monkeypatch.setattr(sys, "argv", ["onceward", "keys", "canonical", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == exit_code(kind)


def test_every_metric_of_the_source_is_on_the_page() -> None:
    """A family that the source makes anywhere is one that the page is made of."""
    listed = {each.name for each in reference_metrics.families(is_process=True)}
    for module in source.modules():
        if "MetricFamily(" not in module.text:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MetricFamily"):
                name = node.args[0]
                assert not isinstance(name, ast.Constant) or name.value in listed, name.value


def test_a_route_for_other_programs_has_a_section() -> None:
    """The Lab's requests and those of conversations are explained one by one."""
    text = reference.page("http.md").read_text()
    for operation in (*reference_http.of_lab(), *reference_http.of_conversations()):
        assert f"### `{operation.request}`\n" in text


# --- what is new is missed ------------------------------------------------------------------------


def with_module(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the source be one new module."""
    new = source.Module(source.PACKAGE / "workers" / "fresh.py", text)
    for user in (reference_events, reference_settings):
        monkeypatch.setattr(user, "modules", lambda: (new,))


def test_a_new_option_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that the page does not list makes the page outdated."""

    def fresh(*, loud: Annotated[bool, typer.Option("--loud", help="Shout.")] = False) -> None:
        """Check this machine.

        Example: `onceward doctor --loud`
        """

    monkeypatch.setattr(doctor, "doctor", fresh)
    assert "| `--loud` |  | Shout. |  |" in reference.made("cli.md")
    with pytest.raises(pytest.fail.Exception, match="--loud"):
        check(reference.page("cli.md"), reference.made("cli.md"))


def test_a_new_metric_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does a metric."""
    fresh = metrics._Gauge("cursor_fresh", "New.", lambda _: None)
    monkeypatch.setattr(metrics, "CURSOR_GAUGES", (*metrics.CURSOR_GAUGES, fresh))
    assert "| `cursor_fresh` | gauge | `cursor_name` | New. |" in reference.made("metrics.md")


def test_a_new_error_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does an error."""
    fresh = type("Fresh", (errors.Conflict,), {"__doc__": "Too fresh."})
    monkeypatch.setattr(errors, "Fresh", fresh, raising=False)
    row = "| `Fresh` | `Conflict` | `CONFLICT` | 409 | 1 | no | Too fresh. |"
    assert row in reference.made("errors.md")


@pytest.mark.parametrize(
    "read",
    [
        'os.environ.get("FRESH_THING")',
        'os.environ["FRESH_THING"]',
        'os.getenv("FRESH_THING", "")',
        '{**env, "ONCEWARD_FRESH_THING": "1"}',
        'any(env.get(each) for each in ("FRESH_THING", "OTHER"))',
        "env.get(FRESH)",
    ],
)
def test_a_new_variable_is_missed(monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    """A variable of the environment that is read is asked for by its name."""
    with_module(monkeypatch, f'import os\nFRESH: Final = "FRESH_THING"\nfound = {read}\n')
    with pytest.raises(Unfit, match="FRESH_THING"):
        reference.made("configuration.md")


@pytest.mark.parametrize(
    "logged",
    [
        '_log.warning("x", extra={"facts": {"action": "fresh_thing"}})',
        'self._log_event(logging.INFO, "x", action="fresh_thing")',
        'self._telemetry.warn_and_retry("fresh_thing", name, exc, 1.0)',
        'log.info("x", extra={"event": "fresh.thing"})',
    ],
)
def test_a_new_event_is_missed(monkeypatch: pytest.MonkeyPatch, logged: str) -> None:
    """An event that is logged in any of the ways we have is seen."""
    with_module(monkeypatch, f"def tell(self):\n    {logged}  # in the log\n")
    assert {"fresh_thing", "fresh.thing"} & set(reference_events.seen())


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_new_column_is_missed(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """A column of either engine is asked for by its name, and so is a table."""
    schema = reference_tables._schema

    def fresh(asked: str) -> str:
        if asked != engine:
            return schema(asked)
        new = schema(asked).replace(
            "  lease_owner text,", "  lease_owner text,\n    fresh text,", 1
        )
        return f"{new}\nCREATE TABLE {'public.' * (asked == 'postgres')}newest (\n    a text\n);\n"

    monkeypatch.setattr(reference_tables, "_schema", fresh)
    with pytest.raises(Unfit, match="cursor_positions: `fresh`.* newest"):
        reference.made("tables.md")


# --- regions --------------------------------------------------------------------------------------


def made_of(text: str) -> Any:
    return lambda _: text


def test_a_person_s_words_are_kept() -> None:
    """Rows come and go with the code; what was written beside them stays with its row."""
    old = table(["name", "kind", "meaning"], [["`a`", "x", "one | two"], ["`b`", "y", "gone"]])
    new = kept_table(old, ["name", "kind", "meaning"], [["`c`", "z", None], ["`a`", "w", None]])
    assert cells(new) == {
        "`c`": {"name": "`c`", "kind": "z", "meaning": "…"},
        "`a`": {"name": "`a`", "kind": "w", "meaning": "one | two"},
    }


def test_prose_around_a_region_is_kept() -> None:
    """Only what is between the marks is generated again."""
    page = f"# A page\n\nBefore.\n\n{region('one', 'old')}\nAfter.\n"
    assert filled(page, {"one": made_of("new")}) == page.replace("old", "new")


def test_a_region_with_a_heading_finds_its_place() -> None:
    """A new command comes before the one that follows it, after the texts of the others."""
    page = f"# A page\n\n{region('a', '## a')}\nOf a.\n\n{region('c', '## c')}\nOf c.\n"
    names = ("a", "b", "c", "d")
    text = filled(page, {name: made_of(f"## {name}") for name in names})
    order = ["## a", "Of a.", "## b", "## c", "Of c.", "## d"]
    assert sorted(order, key=text.index) == order
    assert filled(text, {name: made_of(f"## {name}") for name in names}) == text


def test_a_region_without_a_place_or_a_maker_is_reported() -> None:
    """What was removed, or cannot be placed, is a person's to decide."""
    page = region("one", "old")
    with pytest.raises(Unfit, match="there is no one any more"):
        filled(page, {})
    with pytest.raises(Unfit, match="two has no place"):
        filled(page, {"one": made_of("new"), "two": made_of("| a |")})
