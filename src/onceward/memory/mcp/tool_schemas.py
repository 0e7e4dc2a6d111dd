"""Tool schemas: the JSON Schemas of the tools' arguments and results.

Names and shapes of the nine general tools are those of the reference server; our additions are
optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]


def text(description: str = "", **more: object) -> Schema:
    """Return the schema of a string."""
    return _described({"type": "string", **more}, description)


def number(description: str = "", **more: object) -> Schema:
    """Return the schema of an integer."""
    return _described({"type": "integer", **more}, description)


def milliseconds(description: str) -> Schema:
    """Return the schema of a duration in milliseconds."""
    return _described({"type": "number", "minimum": 0}, description)


def flag(description: str = "") -> Schema:
    """Return the schema of a boolean."""
    return _described({"type": "boolean"}, description)


def choice(description: str, *words: str) -> Schema:
    """Return the schema of an enum."""
    return _described({"type": "string", "enum": list(words)}, description)


def many(items: Schema, description: str = "", **more: object) -> Schema:
    """Return the schema of an array."""
    return _described({"type": "array", "items": items, **more}, description)


def record(properties: Mapping[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object; additional fields are allowed."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


# --- graph items ---------------------------------------------------------------------------------

_NAME: Final = text("Unique name of the entity, such as `Ada Lovelace` or `file#src/app.py`.")
_FACT: Final = many(text(), "Facts about the entity, one short statement per string.")

ENTITY: Final = record(
    {
        "name": _NAME,
        "entityType": text("Type of the entity, such as `person`, `file` or `Error`."),
        "observations": _FACT,
    }
)
RELATION: Final = record(
    {
        "from": text("Name of the source entity, the subject of the relation."),
        "to": text("Name of the target entity, the object of the relation."),
        "relationType": text("Relation type: a verb in active voice, such as `depends on`."),
    }
)
NEW_OBSERVATION_GROUP: Final = record(
    {
        "entityName": text("Name of an existing entity."),
        "contents": many(text(), "Facts to add, one short statement per string."),
    }
)
DELETED_OBSERVATIONS: Final = record(
    {
        "entityName": text("Name of the entity."),
        "observations": many(text(), "Facts to delete, with their exact text."),
    }
)

_LIMIT: Final = number(
    "Maximum number of entities per page; continue with `nextCursor`.", minimum=1
)
_CURSOR: Final = text("`nextCursor` of the previous page.")

#: Optional in every read.
PAGE: Final[Mapping[str, Schema]] = {"limit": _LIMIT, "cursor": _CURSOR}

# --- arguments of the general tools --------------------------------------------------------------

CREATE_ENTITIES: Final = record({"entities": many(ENTITY)})
CREATE_RELATIONS: Final = record({"relations": many(RELATION)})
ADD_OBSERVATIONS: Final = record({"observations": many(NEW_OBSERVATION_GROUP)})
DELETE_ENTITIES: Final = record({"entityNames": many(text(), "Names of the entities to delete.")})
DELETE_OBSERVATIONS: Final = record({"deletions": many(DELETED_OBSERVATIONS)})
DELETE_RELATIONS: Final = record({"relations": many(RELATION, "The relations to delete.")})
READ_GRAPH: Final = record(dict(PAGE), optional=("limit", "cursor"))
SEARCH_NODES: Final = record(
    {
        "query": text(
            "Words to search in names, types and facts; the last word may be a prefix. Also "
            '`prefix*`, "a phrase", `type:Error`, `key:err#…` and `key:err#*`.'
        ),
        **PAGE,
    },
    optional=("limit", "cursor"),
)
OPEN_NODES: Final = record({"names": many(text(), "Exact names of the entities to open.")})

# --- results of the general tools ----------------------------------------------------------------

_KNOWN: Final = record(
    {
        "name": text(),
        "entityType": text("The stored type, which is unchanged."),
        "addedObservations": many(text(), "Facts that the call added."),
    }
)
NEW_ENTITIES: Final = record(
    {
        "entities": many(ENTITY, "Entities that the call created."),
        "known": many(_KNOWN, "Entities that existed already, with the facts that were added."),
    },
    optional=("known",),
)
NEW_RELATIONS: Final = record({"relations": many(RELATION, "Relations that the call created.")})
NEW_OBSERVATIONS: Final = record(
    {
        "results": many(
            record(
                {
                    "entityName": text(),
                    "addedObservations": many(text(), "Facts that the call added."),
                }
            )
        )
    }
)
REMOVAL_RESULT: Final = record(
    {
        "success": flag(),
        "message": text("What was deleted."),
        "entities": number("Number of deleted entities."),
        "observations": number("Number of deleted facts."),
        "relations": number("Number of deleted relations."),
    },
    optional=("entities", "observations", "relations"),
)
GRAPH: Final = record(
    {
        "entities": many(ENTITY),
        "relations": many(RELATION),
        "nextCursor": text("Pass as `cursor` to get the next page; absent on the last page."),
        "isCut": flag("True if facts or relations were left out because of size limits."),
        "counts": record(
            {
                "entities": number("Total number of entities."),
                "observations": number("Total number of facts."),
                "relations": number("Total number of relations."),
            }
        ),
    },
    optional=("nextCursor", "isCut", "counts"),
)

# --- arguments of the policy tools ---------------------------------------------------------------

#: Optional in every record: the context and the time.
RECORD_CONTEXT: Final[Mapping[str, Schema]] = {
    "mode": text("Your mode or role, such as `debugger@2`."),
    "repo": text("Repository, as owner/name or path."),
    "branch": text("Branch of the repository."),
    "ts": text("When it happened, ISO 8601. Default: now."),
}
_OUTPUT: Final[Mapping[str, Schema]] = {
    "cwd": text("Working directory."),
    "stdoutHead": text("Beginning of standard output; the first 8 KiB are stored."),
    "stderrHead": text("Beginning of standard error; the first 8 KiB are stored."),
}
_CHANGE: Final[Schema] = {"type": ["string", "object"]}


def _record_schema(required: Mapping[str, Schema], optional: Mapping[str, Schema]) -> Schema:
    rest = {**optional, **RECORD_CONTEXT}
    return record({**required, **rest}, optional=tuple(rest))


RECORD_RUN: Final = _record_schema(
    {
        "startedAt": text(
            "When the run began, ISO 8601. Part of the run's name: pass the same value when you "
            "retry the call."
        ),
        "cmd": text("The command or task of the run."),
        "exitCode": number("Exit code; 0 means success."),
        "summary": text("What happened, in one or two sentences."),
        "success": flag("Whether the run reached its goal."),
        "durationMs": milliseconds("Duration in milliseconds."),
    },
    {
        **_OUTPUT,
        "keyEvents": many(_CHANGE, "Important events of the run, in order."),
        "tools": many(text(), "Tools that the run used, as `name` or `name@version`."),
        "files": many(text(), "Paths of files that the run touched."),
    },
)
RECORD_COMMAND: Final = _record_schema(
    {"cmd": text("The command line."), "exitCode": number("Exit code; 0 means success.")},
    {
        **_OUTPUT,
        "durationMs": milliseconds("Duration in milliseconds."),
        "run": text("Name of the run it belongs to, as returned by record_run (`run#…`)."),
    },
)
RECORD_ERROR: Final = _record_schema(
    {
        "message": text(
            "The message as displayed, without its stack trace. Times, paths, hashes and "
            "versions in it are ignored."
        ),
        "kind": text("Kind of error, such as `TypeError`, `lint` or `network`."),
        "detector": text("What detected it, such as `pytest`, `mypy` or `human`."),
    },
    {
        "isWarning": flag("True for a warning, which is named `warn#…`."),
        "context": {**_CHANGE, "description": "Where and when it occurs."},
        "command": text("Name of the command that emitted it, as returned by record_command."),
        "dependency": text(
            "Dependency that causes the error, as `name` or `name@version`; not for warnings."
        ),
        "concepts": many(
            text(), "Concepts that the error is about, as short slugs; not for warnings."
        ),
    },
)
RECORD_FIX: Final = _record_schema(
    {
        "issue": text("Name of the error or warning (`err#…`, `warn#…`), or its message."),
        "strategy": text("How it is fixed, in one sentence."),
    },
    {
        "changes": many(_CHANGE, "Changes: paths, commands, settings."),
        "result": choice(
            "Whether the fix was applied or only proposed. Default: applied.", "applied", "proposed"
        ),
        "docs": many(text(), "URLs of documents that the fix is based on."),
        "attempt": number(
            "Number of this attempt, from 2 on, if the fix is applied again after the issue "
            "recurred.",
            minimum=1,
        ),
    },
)
RECORD_OUTCOME: Final = _record_schema(
    {
        "fix": text("Name of the fix, as returned by record_fix or recall (`fix#…`)."),
        "status": choice(
            "Outcome of the fix.", "verified_successful", "failed", "partially_effective"
        ),
        "verificationMethod": text("How it was verified, such as the command that now passes."),
        "durationToVerify": milliseconds("Time until it was verified, in milliseconds."),
    },
    {"sideEffects": many(_CHANGE, "Side effects of the fix.")},
)
RECORD_DOC: Final = _record_schema(
    {"url": text("URL of the document.")},
    {
        "title": text(),
        "site": text(),
        "author": text(),
        "publishedAt": text("Date of publication."),
        "accessedAt": text("When you read it, ISO 8601. Default: the day it was first recorded."),
        "archiveUrl": text("URL of an archived copy."),
        "excerpt": text("Relevant excerpt, at most 500 characters.", maxLength=500),
        "concepts": many(text(), "Concepts that it references, as short slugs."),
    },
)
RECALL: Final = record(
    {"text": text("An error message, a command, a URL, a name, or any words.")},
)
EXPLAIN: Final = record({"name": text("Exact name of the entity.")})

# --- results of the policy tools -----------------------------------------------------------------

_WRITE_STATUS: Final = choice("", "created", "known", "restored", "refused", "buffered")
RECORDED: Final = record(
    {
        "name": text("Name of the recorded entity, for later calls."),
        "isNameProvisional": flag(
            "The record is buffered, and its name may change: a fix of an issue given by message."
        ),
        "entityType": text(),
        "entity": _WRITE_STATUS,
        "observation": _WRITE_STATUS,
        "relations": many(
            {"type": "object"}, "Each relation with its status; refused ones have a reason."
        ),
        "related": many({"type": "object"}, "Other entities that the call created."),
    },
    optional=("isNameProvisional",),
)
RECALLED: Final = record(
    {
        "text": text("Summary of what is known, at most 200 tokens."),
        "how": text("How it was found: `exact key`, `derived key`, `search` or `nothing`."),
        "names": many(text(), "Names of the entities that the summary is based on."),
        "fixes": many({"type": "object"}, "Known fixes with their outcomes, best first."),
    }
)
EXPLAINED: Final[Schema] = {"type": "object"}
