"""Entity types: policy types, the grammar of their names, and the relations between them.

Used by policy and strict validation. Independent of envelopes and storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn

from onceward.errors import InvalidArgument
from onceward.keys.stable import canonical_command
from onceward.memory.entity_names import issue_name
from onceward.memory.fact_schema import is_timestamp

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
        _reject(f"{field}.name", f"{_quoted(name)} has no prefix of a policy type", fix)
    if entity_type != named:
        fix = f"set it to {named}, or use a name that begins with another prefix"
        shown = _quoted(entity_type)
        _reject(f"{field}.entityType", f"{shown} does not fit the name {_quoted(name)}", fix)
    problem = _GRAMMAR[named](name.partition("#")[2])
    if problem:
        problem_here = f"{_quoted(name)} does not follow the grammar of {named} names"
        _reject(f"{field}.name", problem_here, problem)


def check_relation(from_name: str, relation_type: str, to_name: str, field: str) -> None:
    """Raise InvalidArgument unless the vocabulary allows this relation in this direction."""
    problem = relation_problem(from_name, relation_type, to_name)
    if problem:
        place, message, fix = problem
        _reject(f"{field}.{place}", message, fix)


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


def _reject(field: str, problem: str, fix: str) -> NoReturn:
    message = f"{field}: {problem}"
    raise InvalidArgument(message, fix=fix, field=field)
