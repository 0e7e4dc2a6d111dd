"""Error detection: issues in the output of real programs, and in hostile output."""

import string
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceward.memory.capture.error_detection import detect
from onceward.memory.capture.issues import ISSUES_MAX, MESSAGE_CHARACTERS_MAX
from tests.support.program_output_samples import (
    CHAINED,
    ESLINT,
    GCC,
    GO,
    GROUP,
    JAVA,
    NPM,
    PYTEST,
    RUSTC,
    UNITTEST,
)


def detected(output: str, exit_code: int = 1) -> list[tuple[str, str]]:
    """Return what is found: a mark for its weight and its detector, and the message."""
    found = detect(output, "", exit_code)
    return [(f"{'?' if each.is_warning else '!'}{each.detector}", each.message) for each in found]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            PYTEST,
            [
                ("!pytest", "ModuleNotFoundError: No module named 'nothere'"),
                ("!pytest", "fixture 'nope' not found"),
                ("!pytest", "assert 2 == 3"),
                ("!pytest", "KeyError: 'k'"),
                ("!pytest", "ValueError: bad"),
                ("!pytest", "AssertionError: raise AssertionError"),
                ("!pytest", "OSError: the disk is full"),
                ("?python", "DeprecationWarning: foo is old"),
            ],
            id="pytest",
        ),
        pytest.param(
            CHAINED,
            [
                ("!python", "ZeroDivisionError: division by zero"),
                ("!python", "app.JobError: outer"),
            ],
            id="chained",
        ),
        pytest.param(
            GROUP,
            [
                ("!python", "ExceptionGroup: many (2 sub-exceptions)"),
                ("!python", "ValueError: a"),
                ("!python", "TypeError: b"),
            ],
            id="group",
        ),
        pytest.param(UNITTEST, [("!unittest", "AssertionError: 1 != 2")], id="unittest"),
        pytest.param(
            GCC,
            [
                ("!compiler", "'foo' undeclared (first use in this function)"),
                ("?compiler", "unused variable 'x' [-Wunused-variable]"),
            ],
            id="gcc",
        ),
        pytest.param(
            RUSTC,
            [
                ("!rustc", "borrow of moved value: `x`"),
                ("?generic", "unused variable: `y`"),
            ],
            id="rustc",
        ),
        pytest.param(
            "src/a.ts(3,5): error TS2304: Cannot find name 'foo'.\n"
            "src/b.ts:3:5 - error TS2322: Type 'string' is not assignable to type 'number'.\n",
            [
                ("!tsc", "Cannot find name 'foo'."),
                ("!tsc", "Type 'string' is not assignable to type 'number'."),
            ],
            id="tsc",
        ),
        pytest.param(
            ESLINT,
            [
                ("!eslint", "'x' is defined but never used"),
                ("?eslint", "Unexpected console statement"),
            ],
            id="eslint",
        ),
        pytest.param(
            NPM,
            [
                ("!npm", "enoent Could not read package.json"),
                ("?npm", "deprecated left-pad@1.3.0: use String.prototype.padStart()"),
            ],
            id="npm",
        ),
        pytest.param(
            NPM.replace("npm error", "npm ERR!").replace("npm warn", "npm WARN"),
            [
                ("!npm", "enoent Could not read package.json"),
                ("?npm", "deprecated left-pad@1.3.0: use String.prototype.padStart()"),
            ],
            id="old npm",
        ),
        pytest.param(
            GO,
            [
                ("!go", "TestAdd: want 2, got 0"),
                ("!go", "runtime error: index out of range [5] with length 3"),
                ("!go", "undefined: foo"),
            ],
            id="go",
        ),
        pytest.param(
            JAVA,
            [
                ("!java", "java.lang.IllegalStateException: bad state"),
                ("!java", "java.io.IOException: no such disk"),
            ],
            id="java",
        ),
    ],
)
def test_programs_are_understood(output: str, expected: list[tuple[str, str]]) -> None:
    """Each problem is found once, with its message, errors before warnings."""
    assert detected(output) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("error: pathspec 'x' did not match", ("!generic", "pathspec 'x' did not match")),
        ("fatal: not a git repository", ("!generic", "not a git repository")),
        ("pytest: error: unrecognized arguments: -x", ("!generic", "unrecognized arguments: -x")),
        ("[ERROR] Failed to execute goal", ("!generic", "Failed to execute goal")),
        ("a.py:3: error: Incompatible types", ("!compiler", "Incompatible types")),
        ("P.cs(3,5): error CS0103: no such name", ("!compiler", "no such name")),
        ("a.py:1:8: F401 `os` imported but unused", ("!linter", "`os` imported but unused")),
        ("TypeError: x is not a function", ("!exception", "TypeError: x is not a function")),
        ("sh: 1: nope: not found", ("!shell", "nope: not found")),
        ("cat: a: No such file or directory", ("!system", "a: No such file or directory")),
        ("make: *** No rule to make target 'x'.", ("!make", "No rule to make target 'x'.")),
        ("thread 'main' panicked at 'no', src/a.rs:1:2", ("!rust", "no")),
        ("\x1b[1m\x1b[31merror: red\x1b[0m", ("!generic", "red")),
        ("10 %\r20 %\rerror: late\r\n", ("!generic", "late")),
        ("\x1b]0;title\x07error: named", ("!generic", "named")),
        ('web | Traceback (most recent call last):\nweb |   File "a", line 1\nweb | E: x',
         ("!python", "E: x")),
        ("thread 'main' panicked at src/main.rs:2:5:\nno luck", ("!rust", "no luck")),
        ("  ● sums\n\n    expect(a).toBe(2)", ("!jest", "sums: expect(a).toBe(2)")),
    ],
)  # fmt: skip
def test_single_messages_are_understood(line: str, expected: tuple[str, str]) -> None:
    """A message is recognised by its form, after colours and progress bars too."""
    assert detected(line) == [expected]


@pytest.mark.parametrize(
    "line",
    ["0 errors", "all good", "error handling is in errors.py", "2 warnings generated.", "== ok =="],
)
def test_prose_is_no_issue(line: str) -> None:
    """Words about errors are not errors."""
    assert detected(line, exit_code=0) == []


def test_kind_and_place_are_kept() -> None:
    """An issue says what it is and where."""
    found = {each.message: (each.kind, each.context) for each in detect(PYTEST + RUSTC, ESLINT, 1)}
    assert found["assert 2 == 3"] == ("AssertionError", "test_x")
    assert found["ValueError: bad"] == ("ValueError", "TestC.test_p[1]")
    assert found["OSError: the disk is full"] == ("OSError", "test_a.py::test_quiet")
    assert found["borrow of moved value: `x`"] == ("E0382", "src/main.rs:4:5")
    assert found["'x' is defined but never used"] == ("no-unused-vars", "/work/a.js:1:10")
    assert found["DeprecationWarning: foo is old"] == ("DeprecationWarning", "/work/test_a.py:15")


def test_the_same_problem_is_one_issue() -> None:
    """What differs only in times, paths, hashes and versions is the same problem."""
    lines = "".join(
        f"error: cannot open /tmp/run{number}/x at 2026-01-0{number}T10:00:00Z\n"
        for number in range(1, 10)
    )
    assert len(detect(lines, lines, 1)) == 1


def test_a_silent_failure_is_an_issue_of_its_own() -> None:
    """Exit code and last line are all that is known then."""
    (found,) = detect("hello\n", "going\n\ndown\n\n", 3)
    assert found.message == "command failed with exit code 3: down"
    assert found.key == "err#command failed with exit code 3: down"
    (silent,) = detect("", "", 9)
    assert silent.message == "command failed with exit code 9"
    assert detect("hello\n", "", 0) == ()


def test_a_failure_with_nothing_but_warnings_is_an_error_too() -> None:
    """Warnings do not explain an exit code."""
    assert [each.is_warning for each in detect("warning: old\n", "", 2)] == [False, True]


def test_an_interrupt_is_no_problem_of_the_program() -> None:
    """Of what Ctrl-C leaves only the exit code is reported."""
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyboardInterrupt\n'
    (found,) = detect("", trace, 130)
    assert found.detector == "exit code"


def test_errors_are_not_drowned_by_warnings() -> None:
    """There are at most fifty issues, errors first, however many warnings came before."""
    noise = "".join(f"warning: thing {'x' * number} is old\n" for number in range(1, 500))
    found = detect(noise, "error: the one that counts\n", 1)
    assert len(found) == ISSUES_MAX
    assert found[0].message == "the one that counts"


def test_long_messages_are_cut() -> None:
    """A message is one line of a sane length."""
    (found,) = detect("error: " + "word " * 10_000, "", 1)
    assert len(found.message) <= MESSAGE_CHARACTERS_MAX
    assert found.message.endswith("…")


def test_odd_text_does_no_harm() -> None:
    """Half characters, NULs and messages that are nothing but a hash are survived."""
    found = detect("error: a\ud800b\0c\n", "error: 0123456789abcdef\nerror: /tmp/x\n", 1)
    assert [each.message for each in found] == ["a?bc", "/tmp/x"]
    assert all(each.key for each in found)


#: A piece, and how many of them: a megabyte, or a third of what every pattern has to look at.
HOSTILE = {
    "one line": ("a", 1_000_000),
    "spaces": (" ", 1_000_000),
    "newlines": ("\n", 1_000_000),
    "open escapes": ("\x1b[", 500_000),
    "endless escape": ("\x1b[" + "0" * 100_000, 10),
    "open titles": ("\x1b]", 500_000),
    "dashes": ("  +" + "-" * 1990 + "\n", 150),
    "colons": (":1" * 995 + " error\n", 150),
    "digits": ("error :" + "1" * 1990 + "\n", 150),
    "dots": ("a." * 990 + "Exception\n", 150),
    "capitals": ("A" * 1980 + "Exception\n", 150),
    "warnings": (":1: " + "W." * 900 + "Warning\n", 150),
    "quotes": ("thread '' panicked at '" + "', " * 600 + "error\n", 150),
    "gaps": ("  1:1  error " + " " * 1980 + "x\n", 150),
    "names": ("a: " * 660 + "not found error\n", 150),
    "hashes": ("error: deadbeef01 ", 50_000),
    "paths": ("error: /a", 100_000),
    "tracebacks": ("Traceback (most recent call last):\n", 28_000),
    "frames": ('  File "x", line 1\n', 10_000),
    "errors": ("error: a b c\n", 5_000),
    "reports": ("=== short test summary info ===\nFAILED a::b - c\n", 3_000),
}


@pytest.mark.parametrize(("piece", "count"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_output_takes_no_time(piece: str, count: int) -> None:
    """A megabyte of whatever is looked through at once; a wrong pattern would take an hour."""
    output = piece * count
    began = time.process_time()
    assert len(detect(output, "", 1)) <= ISSUES_MAX
    assert time.process_time() - began < 4


@given(st.lists(st.sampled_from([*string.printable, "error: ", "E   ", "\x1b[", "Traceback "])))
@settings(max_examples=200, deadline=None)
def test_any_text_is_survived(parts: list[str]) -> None:
    """Whatever is printed, an answer comes, and a failure is never without an error."""
    found = detect("".join(parts), "", 1)
    assert found
    assert not found[0].is_warning
    assert len({each.key for each in found}) == len(found)


def test_a_real_pytest_and_a_real_traceback_are_understood(tmp_path: Path) -> None:
    """The forms above are those that the installed programs print."""
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert 1 + 1 == 3\n")
    (tmp_path / "broken.py").write_text("def (\n")
    runs = {
        "assert (1 + 1) == 3": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
        "SyntaxError: invalid syntax": ("broken.py",),
        "ModuleNotFoundError: No module named 'nothere'": ("-c", "import nothere"),
    }
    for message, words in runs.items():
        ran = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert [each.message for each in detect(ran.stdout, ran.stderr, ran.returncode)] == [
            message
        ]
