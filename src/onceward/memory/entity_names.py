"""Entity names: policy types, the grammar of their names, and the relations between them.

Names are stored, displayed and logged, so secrets are redacted before a name is derived. Redacting
a name again must not change it. Independent of envelopes and storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeGuard
from unicodedata import normalize

from onceward.errors import InvalidArgument
from onceward.errors.arguments import reject_field
from onceward.keys.stable import canonical_command, error_key, warning_key
from onceward.system.redaction import REDACTED, Redactor

#: Entity type to name prefix.
TYPES: Final = {
    "Run": "run",
    "Command": "cmd",
    "Error": "err",
    "Warning": "warn",
    "Dependency": "dep",
    "Fix": "fix",
    "Doc": "doc",
    "Concept": "concept",
    "Mode": "mode",
    "Tool": "tool",
    "File": "file",
}
#: Relation type, in active voice, to its source type and its target types.
RELATIONS: Final = {
    "EXECUTES": ("Run", ("Command",)),
    "EMITS": ("Command", ("Error", "Warning")),
    "CAUSED_BY": ("Error", ("Dependency",)),
    "RESOLVES": ("Fix", ("Error",)),
    "MITIGATES": ("Fix", ("Warning",)),
    "DERIVED_FROM": ("Fix", ("Doc",)),
    "REFERENCES": ("Doc", ("Concept",)),
    "ABOUT": ("Error", ("Concept",)),
    "PERFORMED_BY": ("Run", ("Mode",)),
    "USES": ("Run", ("Tool",)),
    "TOUCHES": ("Run", ("File",)),
}

_BY_PREFIX: Final = {prefix: entity_type for entity_type, prefix in TYPES.items()}
_SHOWN_CHARACTERS: Final = 80
_DIGITS_8: Final = re.compile(r"[0-9a-f]{8}")
_DIGITS_64: Final = re.compile(r"[0-9a-f]{64}")
#: Limit for an issue's name, so that the name of its fix stays within the limit for names.
ISSUE_BYTES_MAX: Final = 1_900
#: How much of a message is used for its name.
_MESSAGE_CHARACTERS_MAX: Final = 8 * 1024
#: Limit for repeated normalisation, because each pass may expose new matches; usually one.
_PASSES_MAX: Final = 20


# --- deriving names ------------------------------------------------------------------------------


def issue_name(message: str, redactor: Redactor | None = None, *, is_warning: bool = False) -> str:
    """Return the stable key of a message, `err#…` or `warn#…`, within the limit for names.

    Normalises until nothing changes: removing a hash can join the halves of a time, and lower case
    can reveal a secret.
    """
    key, prefix = (warning_key, "warn#") if is_warning else (error_key, "err#")
    # Neither engine stores NUL characters.
    body = (_redacted(message, redactor)[:_MESSAGE_CHARACTERS_MAX]).replace("\0", " ")
    for _ in range(_PASSES_MAX):
        name = normalize("NFC", key(_redacted(normalize("NFC", body), redactor)))
        settled = truncate(name.removeprefix(prefix), ISSUE_BYTES_MAX - len(prefix))
        if settled == body:
            return prefix + settled
        body = settled
    problem = "message: no stable name can be derived from it: each redaction changes it again"
    fix = "pass less of the message, such as its first line"
    raise InvalidArgument(problem, fix=fix, field="message")


def command_line(cmd: str, redactor: Redactor | None = None) -> str:
    """Return the canonical command line used in `cmd#…`, by which results are grouped."""
    plain = normalize("NFC", cmd)
    collapsed = " ".join(_redacted(plain, redactor).replace("\0", " ").split())
    # Collapsed white space can reveal a secret's name next to its value.
    clean = _redacted(collapsed, redactor)
    line = canonical_command(clean)
    return line if line == clean else _without_partial_marker(line)


def _redacted(text: str, redactor: Redactor | None) -> str:
    return text if redactor is None else redactor.text(text)


def truncate(text: str, bytes_max: int) -> str:
    """Return the beginning of a text, cut between characters, as valid Unicode."""
    encoded = text.encode(errors="replace")
    kept = encoded[:bytes_max].decode(errors="ignore")
    return kept if len(encoded) <= bytes_max else _without_partial_marker(kept)


def _without_partial_marker(text: str) -> str:
    """Remove an incomplete redaction marker at the end; it would be redacted again."""
    for length in range(len(REDACTED) - 1, 0, -1):
        if text.endswith(REDACTED[:length]):
            return text[:-length].rstrip()
    return text


# --- the policy ----------------------------------------------------------------------------------


def type_of(name: str) -> str | None:
    """Return the entity type for a name's prefix, or None."""
    prefix, mark, rest = name.partition("#")
    return _BY_PREFIX.get(prefix) if mark and rest else None


def is_policy_entity(name: str, entity_type: str) -> bool:
    """Return whether the name has a policy prefix or the type is a policy type."""
    prefix, mark, _ = name.partition("#")
    return bool(mark and prefix in _BY_PREFIX) or entity_type in TYPES


def check_entity(name: str, entity_type: str, field: str) -> None:
    """Raise InvalidArgument unless the name follows the grammar of its type."""
    named = type_of(name)
    if named is None:
        fix = f"begin it with one of {', '.join(f'{each}#' for each in _BY_PREFIX)}"
        if entity_type in TYPES:
            fix = f"begin it with {TYPES[entity_type]}#, or use another entityType"
        reject_field(f"{field}.name", f"{_quoted(name)} has no prefix of a policy type", fix)
    if entity_type != named:
        fix = f"set it to {named}, or use a name that begins with another prefix"
        shown = _quoted(entity_type)
        reject_field(f"{field}.entityType", f"{shown} does not fit the name {_quoted(name)}", fix)
    problem = _GRAMMAR[named](name.partition("#")[2])
    if problem:
        problem_here = f"{_quoted(name)} does not follow the grammar of {named} names"
        reject_field(f"{field}.name", problem_here, problem)


def check_relation(from_name: str, relation_type: str, to_name: str, field: str) -> None:
    """Raise InvalidArgument unless the vocabulary allows this relation in this direction."""
    problem = relation_problem(from_name, relation_type, to_name)
    if problem:
        place, message, fix = problem
        reject_field(f"{field}.{place}", message, fix)


def relation_problem(
    from_name: str, relation_type: str, to_name: str
) -> tuple[str, str, str] | None:
    """Return the invalid field, the problem and the fix; None if the relation is valid.

    Checks only name prefixes, not whether the entities exist.
    """
    if relation_type not in RELATIONS:
        fix = f"use one of {', '.join(RELATIONS)}"
        return "relationType", f"{_quoted(relation_type)} is not in the vocabulary", fix
    source, targets = RELATIONS[relation_type]
    allowed = f"{relation_type} goes from {source} to {' or '.join(targets)}"
    ends = (("from", from_name, (source,)), ("to", to_name, targets))
    for place, name, types in ends:
        if type_of(name) not in types:
            begins = " or ".join(f"{TYPES[each]}#" for each in types)
            return place, f"{allowed}, not {_quoted(name)}", f"name an entity {begins}…"
    return None


# --- the grammar after the prefix: each function returns the fix, or an empty string --------------


def _run(body: str) -> str:
    started_at, _, digits = body.rpartition("#")
    if is_timestamp(started_at) and _DIGITS_8.fullmatch(digits):
        return ""
    return "write run#<ISO 8601 start>#<8 hex digits>"


def _command(body: str) -> str:
    command, _, digits = body.rpartition("#")
    if command and canonical_command(command) == command and _DIGITS_8.fullmatch(digits):
        return ""
    return "write cmd#<command, white space collapsed, at most 120 characters>#<8 hex digits>"


def _issue(prefix: str) -> Callable[[str], str]:
    def problem(body: str) -> str:
        try:
            wanted = issue_name(body, is_warning=prefix == "warn")
        except InvalidArgument as exc:
            return exc.fix
        if wanted == f"{prefix}#{body}":
            return ""
        return f"normalise the message: {wanted[:500]}"

    return problem


def _fix(body: str) -> str:
    issue, _, digits = body.rpartition("#")
    prefix, _, message = issue.partition("#")
    if prefix in ("err", "warn") and not _issue(prefix)(message) and _DIGITS_8.fullmatch(digits):
        return ""
    return "write fix#<name of the error or warning, err#… or warn#…>#<8 hex digits>"


def _doc(body: str) -> str:
    return "" if _DIGITS_64.fullmatch(body) else "write doc#<SHA-256 of the URL, 64 hex digits>"


def _versioned(body: str) -> str:
    return "leave out the @ where there is no version" if body.endswith("@") else _plain(body)


def _plain(body: str) -> str:
    return "" if body.strip() else "write something after the #"


_GRAMMAR: Final[dict[str, Callable[[str], str]]] = {
    "Run": _run,
    "Command": _command,
    "Error": _issue("err"),
    "Warning": _issue("warn"),
    "Dependency": _versioned,
    "Fix": _fix,
    "Doc": _doc,
    "Concept": _plain,
    "Mode": _versioned,
    "Tool": _versioned,
    "File": _plain,
}


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def is_timestamp(value: object) -> TypeGuard[str]:
    """Return whether the value is an ISO 8601 date with a time of day."""
    return isinstance(value, str) and "T" in value and is_date(value)


def is_date(value: object) -> bool:
    """Return whether the value is an ISO 8601 date or time."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False
