"""Manifest: every promise and every closed failure mode is defended by tests that are there.

`tests/manifest.toml` names them. A test that is moved, merged or removed shows as a change of that
list, so that no promise loses its last test unnoticed.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.proof.bugs.bank import BUGS
from tests.proof.report import promises

ROOT: Final = Path(__file__).parents[2]
MANIFEST: Final = ROOT / "tests" / "manifest.toml"
#: The failure modes closed so far; a closed one stays closed.
CLOSED: Final = {f"h{number:02}" for number in [*range(1, 66), *range(68, 74)]}
_TEST: Final = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)

Manifest = dict[str, dict[str, list[str]]]


@cache
def manifest() -> Manifest:
    return tomllib.loads(MANIFEST.read_text(encoding="utf-8"))


@cache
def present() -> frozenset[str]:
    """Return every test of the tree, without parameters."""
    return frozenset(
        f"{path.relative_to(ROOT).as_posix()}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in _TEST.findall(path.read_text(encoding="utf-8"))
    )


def named_after_failure_modes(tests: frozenset[str]) -> dict[str, set[str]]:
    """Return the tests that bear the name of a failure mode, by its id."""
    found: dict[str, set[str]] = defaultdict(set)
    for test in tests:
        if match := re.search(r"::test_(h\d\d)_", test):
            found[match[1]].add(test)
    return found


def problems(listed: Manifest, tests: frozenset[str]) -> list[str]:
    """Return what is wrong with a manifest, each as a sentence that names the test."""
    catching: dict[str, set[str]] = defaultdict(set)
    for bug in BUGS:
        catching[bug.breaks].add(bug.test.partition("[")[0])
    wanted = {
        "promises": {each.id: catching[each.id] for each in promises()},
        "failure_modes": {
            each: named_after_failure_modes(tests)[each]
            for each in CLOSED | named_after_failure_modes(tests).keys()
        },
    }
    found = [f"[{section}] is unknown" for section in listed.keys() - wanted.keys()]
    for section, by_id in wanted.items():
        given = listed.get(section, {})
        found += [f"{each} is in [{section}], but there is none" for each in given.keys() - by_id]
        for each, tests_wanted in by_id.items():
            named = set(given.get(each, ()))
            if not named & tests:
                found.append(f"{each} has no test")
            found += [f"{each} names {test}, which is not there" for test in named - tests]
            found += [f"{each} does not name {test}" for test in tests_wanted - named]
    return sorted(found)


def test_every_promise_and_failure_mode_has_its_tests() -> None:
    """The list and the tree agree: nothing is missing on either side."""
    assert not problems(manifest(), present())


@pytest.mark.parametrize(
    ("section", "name"), [("promises", "D2"), ("failure_modes", "h13"), ("failure_modes", "h34")]
)
def test_a_promise_or_failure_mode_that_loses_its_tests_is_noticed(section: str, name: str) -> None:
    """Without the tests on its list, or without its list, each is reported by its id."""
    listed = set(manifest()[section][name])
    assert f"{name} has no test" in problems(manifest(), present() - listed)
    emptied = {key: dict(value) for key, value in manifest().items()}
    del emptied[section][name]
    assert f"{name} has no test" in problems(emptied, present())


def test_a_renamed_test_is_noticed() -> None:
    """A name on the list that is not in the tree is reported with the list that it is on."""
    test = manifest()["failure_modes"]["h13"][0]
    found = problems(manifest(), present() - {test} | {f"{test}_again"})
    assert f"h13 names {test}, which is not there" in found
    assert f"h13 does not name {test}_again" in found
