"""The bug bank: every bug fits the source, is caught by its test, and the bank itself can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.proof.bugs.__main__ import main
from tests.proof.bugs.bank import BUGS, CANARY
from tests.proof.bugs.bug import SOURCE, Bug, Rotten, broken_text, put_back
from tests.proof.bugs.running import CANNOT_RUN, Verdict, environment, hunt, run
from tests.proof.report import promises

#: What `make test` hunts: a statement, a program and a migration.
FAST = ("cursor-fence-sqlite", "mismatch-not-checked", "checkpoint-does-not-raise")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hunted" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("--prove") or metafunc.config.getoption("--soak")
        bugs = [bug for bug in BUGS if is_long or bug.id in FAST]
        metafunc.parametrize("hunted", bugs, ids=[bug.id for bug in bugs])


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_it_is_caught(hunted: Bug, request: pytest.FixtureRequest) -> None:
    """With this mistake in the source, the test that is named turns red in time."""
    verdict = hunt(hunted)
    assert verdict.is_caught, f"{hunted.name}: {verdict.why}\n{verdict.repro}"
    directory = request.config.getoption("--evidence")
    if directory is not None:
        record(verdict, Path(directory))


def record(verdict: Verdict, directory: Path) -> None:
    """Write a bug that was caught down for the report."""
    bug = verdict.bug
    line = {
        "bug": bug.id,
        "what": bug.name,
        "harm": bug.harm,
        "claim": bug.breaks,
        "file": f"src/onceward/{bug.file}",
        "test": bug.test,
        "seconds": round(verdict.seconds, 2),
    }
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"bugs-{os.getpid()}.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_without_bugs_the_same_tests_pass(prove: bool) -> None:
    """A test that always fails would catch everything."""
    if not prove:
        pytest.skip("they run by themselves, too; `make prove` runs them as the bank does")
    tests = list(dict.fromkeys(bug.test for bug in BUGS))
    results = run(tests, seconds=max(bug.seconds for bug in BUGS))
    red = {test: result.summary for test, result in results.items() if result.ending != "passed"}
    quoted = " ".join(f"'{test}'" for test in red)
    assert not red, f"{red}\nREPRO: python -m pytest {quoted}"


def test_the_canary_is_not_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """A bug that changes nothing is reported as such, and the command fails: the bank can fail."""
    assert main(["canary", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["caught"], printed["why"]) == (False, "passed: ")


@pytest.mark.parametrize("bug", [*BUGS, CANARY], ids=lambda bug: bug.id)
def test_it_fits_the_source(bug: Bug) -> None:
    """What it replaces stands there once, what it makes can be read, and its test is a test."""
    broken = broken_text(bug)
    if bug.file.endswith(".py"):
        compile(broken, bug.file, "exec")
    path, _, name = bug.test.partition("::")
    function = name.partition("[")[0]
    assert f"def {function}(" in (SOURCE.parent / path).read_text(encoding="utf-8")
    assert bug.harm.endswith(".")


def test_each_names_a_case_that_exists(request: pytest.FixtureRequest) -> None:
    """Its test was collected with exactly these parameters, where this run collected the test."""
    collected = {item.nodeid for item in request.session.items}
    functions = {case.partition("[")[0] for case in collected}
    gone = {
        bug.id: bug.test
        for bug in BUGS
        if bug.test not in collected and "[" in bug.test
        if bug.test.partition("[")[0] in functions
    }
    assert not gone


def test_every_promise_has_a_bug() -> None:
    """Every promise has a bug that breaks it; names are used once."""
    assert {bug.breaks for bug in BUGS} == {promise.id for promise in promises()}
    assert len({bug.id for bug in BUGS}) == len(BUGS) >= 30
    assert set(FAST) < {bug.id for bug in BUGS}


@pytest.mark.parametrize(
    "change",
    [
        {"find": "no such line"},
        {"find": "lease"},
        {"file": "stores/queries/nothing.sql"},
        {"query": "nothing"},
        {"find": "where cursor_name = :name", "replace": "where cursor_name = :name"},
    ],
    ids=["gone", "twice", "no file", "no query", "no change"],
)
def test_a_bug_that_does_not_fit_fails_the_bank(change: dict[str, Any]) -> None:
    """The source has changed since, and a maintainer must look: it is not passed over."""
    with pytest.raises(Rotten):
        hunt(replace(BUGS[0], **change))


def test_a_test_that_is_not_there_catches_nothing() -> None:
    """A name that is wrong ends pytest with an error, which is no catch."""
    verdict = hunt(replace(BUGS[0], test="tests/conformance/test_cursors.py::test_nothing"))
    assert not verdict.is_caught
    assert verdict.why.startswith("unusable: pytest ended with 4")


def test_code_that_cannot_run_is_no_bug() -> None:
    """A slip in the replacement breaks every test, and would pass for a catch."""
    slip = replace(BUGS[0], replace="where cursor_nam = :name")
    verdict = hunt(slip)
    assert not verdict.is_caught, verdict.why
    assert "no such column" in verdict.why
    for said in ("NameError: name 'x' is not defined", "red\nSyntaxError: invalid syntax"):
        assert CANNOT_RUN.search(said)
    assert not CANNOT_RUN.search("AssertionError: assert 1 == 2")


def test_the_copy_wins_over_what_is_installed(tmp_path: Path) -> None:
    """In the process itself and in those that it starts, for programs and for statements."""
    copy = tmp_path / "src"
    put_back(CANARY, copy)
    look = (
        "import onceward, subprocess, sys; from onceward.stores.queries import query;"
        "print(onceward.__file__, query('sqlite', 'cursor_checkpoint').splitlines()[0]);"
        "sys.argv[1:] and subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    command = [sys.executable, "-c", look, look]
    printed = subprocess.check_output(command, env=environment(copy, tmp_path), text=True)
    assert printed.splitlines() == [f"{copy}/onceward/__init__.py {CANARY.replace}"] * 2
    original = SOURCE / "onceward" / CANARY.file
    assert CANARY.find in original.read_text(encoding="utf-8")
    assert (copy / "onceward" / CANARY.file).stat().st_ino != original.stat().st_ino
