"""All errors are one tree, and each carries enough to act on."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from onceward import errors
from onceward.errors import (
    DiskFull,
    InvalidCursor,
    LeaseLost,
    NotCanonical,
    OncewardError,
    StorageError,
    VersionMismatch,
)

CLASSES: list[type[OncewardError]] = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if found.__module__ == errors.__name__ and issubclass(found, OncewardError)
]
#: Those that can be made without saying anything.
PLAIN = [kind for kind in CLASSES if kind.__init__ is OncewardError.__init__]


def test_errors_are_known_by_where_they_are_imported_from() -> None:
    """Tracebacks and recorded failures name the public place, and errors of others keep theirs."""

    class Ours(OncewardError):
        """An error of a user's."""

    assert {each.__name__ for each in CLASSES} == set(errors.__all__)
    assert f"{DiskFull.__module__}.{DiskFull.__qualname__}" == "onceward.errors.DiskFull"
    assert Ours.__module__ == __name__


def test_every_error_explains_itself() -> None:
    """Each class has a docstring of its own, whose first line is a sentence."""
    for kind in CLASSES:
        assert re.fullmatch(r"[A-Z].*\S\.", (vars(kind)["__doc__"] or "").splitlines()[0])


def test_every_error_has_an_upper_case_code() -> None:
    """Codes are API: capitals and underscores."""
    for kind in CLASSES:
        assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", kind.code)
        assert isinstance(kind.retryable, bool)


def test_every_error_class_has_a_code_of_its_own() -> None:
    """A code identifies one class, so that clients can tell errors apart by code alone."""
    by_code: dict[str, set[str]] = {}
    for kind in CLASSES:
        assert issubclass(kind, OncewardError)
        by_code.setdefault(kind.code, set()).add(kind.__name__)
    assert {code: names for code, names in by_code.items() if len(names) > 1} == {}


def test_default_message_is_the_docstring() -> None:
    """Raised without a message, an error says what its class is about."""
    for kind in PLAIN:
        error = kind()
        assert error.message == str(error) == (kind.__doc__ or "").splitlines()[0]


def test_errors_leave_the_system_in_one_shape() -> None:
    """Code, message and context, under the key `error`."""
    for kind in PLAIN:
        assert kind("Gone.", fix="look", line=3).to_dict() == {
            "error": {"code": kind.code, "message": "Gone.", "context": {"fix": "look", "line": 3}}
        }


def test_plain_facts_can_be_sent_as_json() -> None:
    """What `to_dict` returns goes over the wire as it is."""
    error = StorageError("Broken.", path="/log", errno=5)
    assert json.loads(json.dumps(error.to_dict()))["error"]["context"] == {
        "fix": StorageError.default_fix,
        "path": "/log",
        "errno": 5,
    }


@pytest.mark.parametrize(("is_ambiguous", "fix"), [(False, "rolls back"), (True, "is stored")])
def test_a_lost_lease_says_what_is_stored(is_ambiguous: bool, fix: str) -> None:
    """After an ambiguous checkpoint, a rollback would be a promise that is not kept."""
    assert LeaseLost("mail", 3, 3, is_ambiguous=is_ambiguous).fix.endswith(fix)


@pytest.mark.parametrize(("stored", "fix"), [(1, "migrations"), (3, "at version 3 or later")])
def test_a_position_cannot_be_migrated_down(stored: int, fix: str) -> None:
    """Migrations lead up only, so an older worker needs another fix."""
    assert fix in VersionMismatch("mail", stored, 2).fix


def test_fix_of_the_class_is_used_unless_the_raiser_knows_better() -> None:
    """An error that knows what to do says so; one that does not has no empty advice."""
    assert DiskFull().context == {"fix": DiskFull.default_fix}
    assert DiskFull(fix="delete the logs").fix == "delete the logs"
    assert '"0" for the start' in InvalidCursor().fix
    assert OncewardError().context == {}


def test_not_canonical_names_the_place() -> None:
    """The path is in the message, in the context and on the error."""
    error = NotCanonical("inputs.items[3].price", "NaN is not JSON", fix="send null")
    assert error.path == "inputs.items[3].price"
    assert str(error) == "inputs.items[3].price: NaN is not JSON"
    assert error.to_dict() == {
        "error": {
            "code": "NOT_CANONICAL",
            "message": "inputs.items[3].price: NaN is not JSON",
            "context": {"fix": "send null", "path": "inputs.items[3].price"},
        }
    }
