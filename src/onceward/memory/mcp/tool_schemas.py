"""Tool schemas: the JSON Schemas of what each tool takes and gives.

Owns shapes and the words that explain a field to a model. What the nine tools take and give has the
names that clients know already; what we add to them is optional. Checks nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]


def text(description: str = "", **more: object) -> Schema:
    """Return the schema of a text."""
    return _described({"type": "string", **more}, description)


def number(description: str = "", **more: object) -> Schema:
    """Return the schema of a whole number."""
    return _described({"type": "integer", **more}, description)


def milliseconds(description: str) -> Schema:
    """Return the schema of a duration."""
    return _described({"type": "number", "minimum": 0}, description)


def flag(description: str = "") -> Schema:
    """Return the schema of a truth value."""
    return _described({"type": "boolean"}, description)


def choice(description: str, *words: str) -> Schema:
    """Return the schema of one of a few words."""
    return _described({"type": "string", "enum": list(words)}, description)


def many(items: Schema, description: str = "", **more: object) -> Schema:
    """Return the schema of a list."""
    return _described({"type": "array", "items": items, **more}, description)


def record(properties: Mapping[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object; other fields than these may be there too."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


# --- what the graph is made of -------------------------------------------------------------------

_NAME: Final = text("The entity's unique name, such as `Ada Lovelace` or `file#src/app.py`.")
_FACT: Final = many(text(), "Facts about the entity, one short statement each.")

ENTITY: Final = record(
    {
        "name": _NAME,
        "entityType": text("What kind of thing it is, such as `person`, `file` or `Error`."),
        "observations": _FACT,
    }
)
RELATION: Final = record(
    {
        "from": text("Name of the entity that does something."),
        "to": text("Name of the entity it is done to."),
        "relationType": text("What it does, as a verb in active voice, such as `depends on`."),
    }
)
OBSERVED: Final = record(
    {
        "entityName": text("Name of an entity that exists."),
        "contents": many(text(), "Facts to add, one short statement each."),
    }
)
FORGOTTEN: Final = record(
    {
        "entityName": text("Name of the entity."),
        "observations": many(text(), "The facts to delete, exactly as they read."),
    }
)

_LIMIT: Final = number("At most so many entities; more follow at `nextCursor`.", minimum=1)
_CURSOR: Final = text("Where to go on: `nextCursor` of the page before.")

#: Optional in every read.
PAGE: Final[Mapping[str, Schema]] = {"limit": _LIMIT, "cursor": _CURSOR}

# --- what the nine tools take --------------------------------------------------------------------

CREATE_ENTITIES: Final = record({"entities": many(ENTITY)})
CREATE_RELATIONS: Final = record({"relations": many(RELATION)})
ADD_OBSERVATIONS: Final = record({"observations": many(OBSERVED)})
DELETE_ENTITIES: Final = record({"entityNames": many(text(), "Names of the entities to delete.")})
DELETE_OBSERVATIONS: Final = record({"deletions": many(FORGOTTEN)})
DELETE_RELATIONS: Final = record({"relations": many(RELATION, "The relations to delete.")})
READ_GRAPH: Final = record(dict(PAGE), optional=("limit", "cursor"))
SEARCH_NODES: Final = record(
    {
        "query": text(
            "Words to look for in names, types and facts; beginnings of words count. Also "
            '"a phrase", `type:Error`, `key:err#…` and `key:err#*`.'
        ),
        **PAGE,
    },
    optional=("limit", "cursor"),
)
OPEN_NODES: Final = record({"names": many(text(), "Exact names of the entities to open.")})

# --- what they give ------------------------------------------------------------------------------

_KNOWN: Final = record(
    {
        "name": text(),
        "entityType": text("The type it has and keeps."),
        "addedObservations": many(text(), "What it did not have yet."),
    }
)
NEW_ENTITIES: Final = record(
    {
        "entities": many(ENTITY, "Those that are new."),
        "known": many(_KNOWN, "Those that existed, with what was added to them."),
    },
    optional=("known",),
)
NEW_RELATIONS: Final = record({"relations": many(RELATION, "Those that are new.")})
NEW_OBSERVATIONS: Final = record(
    {
        "results": many(
            record({"entityName": text(), "addedObservations": many(text(), "What was new.")})
        )
    }
)
DONE: Final = record(
    {
        "success": flag(),
        "message": text("What was deleted."),
        "entities": number("How many."),
        "observations": number("How many."),
        "relations": number("How many."),
    },
    optional=("entities", "observations", "relations"),
)
GRAPH: Final = record(
    {
        "entities": many(ENTITY),
        "relations": many(RELATION),
        "nextCursor": text("Send it as `cursor` to go on; absent at the end."),
        "isCut": flag("True when facts or relations were left out, as there are too many."),
        "counts": record(
            {
                "entities": number("How many in all."),
                "observations": number("How many in all."),
                "relations": number("How many in all."),
            }
        ),
    },
    optional=("nextCursor", "isCut", "counts"),
)

# --- what the tools of the policy take -----------------------------------------------------------

#: Optional in every record: where the agent is at work, and when it happened.
PLACE: Final[Mapping[str, Schema]] = {
    "mode": text("Which mode or role you act in, such as `debugger@2`."),
    "repo": text("Repository, as owner/name or path."),
    "branch": text("Branch of the repository."),
    "ts": text("When it happened, ISO 8601; now if left out."),
}
_OUTPUT: Final[Mapping[str, Schema]] = {
    "cwd": text("Directory it ran in."),
    "stdoutHead": text("Beginning of standard output; 8 KiB are kept."),
    "stderrHead": text("Beginning of standard error; 8 KiB are kept."),
}
_CHANGE: Final[Schema] = {"type": ["string", "object"]}


def _placed(required: Mapping[str, Schema], optional: Mapping[str, Schema]) -> Schema:
    rest = {**optional, **PLACE}
    return record({**required, **rest}, optional=tuple(rest))


RECORD_RUN: Final = _placed(
    {
        "startedAt": text(
            "When the run began, ISO 8601. Send the same again if you repeat the call: it is part "
            "of the run's name."
        ),
        "cmd": text("The command, or the task, that the run was about."),
        "exitCode": number("0 for success."),
        "summary": text("What happened, in a sentence or two."),
        "success": flag("Whether the run reached its goal."),
        "durationMs": milliseconds("How long it took."),
    },
    {
        **_OUTPUT,
        "keyEvents": many(_CHANGE, "What mattered on the way, in order."),
        "tools": many(text(), "Tools it used, as `name` or `name@version`."),
        "files": many(text(), "Paths of files it touched."),
    },
)
RECORD_COMMAND: Final = _placed(
    {"cmd": text("The command line."), "exitCode": number("0 for success.")},
    {
        **_OUTPUT,
        "durationMs": milliseconds("How long it took."),
        "run": text("Name of the run it belongs to, as record_run gave it (`run#…`)."),
    },
)
RECORD_ERROR: Final = _placed(
    {
        "message": text(
            "The message as it was shown, without its stack trace. Times, paths, hashes and "
            "versions in it do not matter."
        ),
        "kind": text("What kind, such as `TypeError`, `lint` or `network`."),
        "detector": text("What found it, such as `pytest`, `mypy` or `human`."),
    },
    {
        "isWarning": flag("True for a warning; it is named `warn#…` then."),
        "context": {**_CHANGE, "description": "Where and when it appears."},
        "command": text("Name of the command that emitted it, as record_command gave it."),
        "dependency": text("What causes an error, as `name` or `name@version`; not for warnings."),
        "concepts": many(text(), "What an error is about, as short slugs; not for warnings."),
    },
)
RECORD_FIX: Final = _placed(
    {
        "issue": text("Name of the error or warning (`err#…`, `warn#…`), or its message."),
        "strategy": text("How it is fixed, in a sentence."),
    },
    {
        "changes": many(_CHANGE, "What is changed: paths, commands, settings."),
        "result": choice("Whether it is only proposed.", "applied", "proposed"),
        "docs": many(text(), "URLs of the documents it is based on."),
        "attempt": number(
            "When the problem came back and the fix is applied again: which time, from 2 on.",
            minimum=1,
        ),
    },
)
RECORD_OUTCOME: Final = _placed(
    {
        "fix": text("Name of the fix, as record_fix or recall gave it (`fix#…`)."),
        "status": choice(
            "How it turned out.", "verified_successful", "failed", "partially_effective"
        ),
        "verificationMethod": text("How you know, such as the command that passes now."),
        "durationToVerify": milliseconds("How long it took to find out, in milliseconds."),
    },
    {"sideEffects": many(_CHANGE, "What else changed.")},
)
RECORD_DOC: Final = _placed(
    {"url": text("Address of the document.")},
    {
        "title": text(),
        "site": text(),
        "author": text(),
        "publishedAt": text("When it was published."),
        "accessedAt": text("When you read it, ISO 8601; now if left out."),
        "archiveUrl": text("Address of a copy that stays."),
        "excerpt": text("The part that matters, at most 500 characters.", maxLength=500),
        "concepts": many(text(), "What it is about, as short slugs."),
    },
)
RECALL: Final = record(
    {"text": text("An error message, a command, a URL, a name, or any words.")},
)
EXPLAIN: Final = record({"name": text("Exact name of the entity.")})

# --- what they give ------------------------------------------------------------------------------

_FATE: Final = choice("", "created", "known", "restored", "refused", "buffered")
RECORDED: Final = record(
    {
        "name": text("The name to use from now on."),
        "isNameProvisional": flag(
            "The record waits, and may get another name: a fix by the message of its issue."
        ),
        "entityType": text(),
        "entity": _FATE,
        "observation": _FATE,
        "relations": many({"type": "object"}, "What became of each; refused ones say why."),
        "related": many({"type": "object"}, "Other entities that were created with it."),
    },
    optional=("isNameProvisional",),
)
RECALLED: Final = record(
    {
        "text": text("What is known, in at most 200 tokens."),
        "how": text("How it was found: exact key, derived key, search, or nothing."),
        "names": many(text(), "The entities it is taken from."),
        "fixes": many({"type": "object"}, "The best first, with their evidence."),
    }
)
EXPLAINED: Final[Schema] = {"type": "object"}
