"""Make the reference of HTTP requests, from the routes of the servers and their OpenAPI.

The applications are built on stand-ins, since no request is sent here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from http import HTTPMethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from docs.make.regions import Maker, code, kept_table, table
from onceward.client import Onceward
from onceward.console.app import build_app
from onceward.console.context import ConsoleContext
from onceward.console.single_page_app import SCREENS
from onceward.dispatch.conversations import Chats
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.http.errors import GUARD_RESPONSES
from onceward.lab.lab import Lab
from onceward.workers import http as workers_http

_HEADS: Final = ("request", "what it does", "parameters", "body", "statuses")
_REFERENCE: Final = "#/components/schemas/"
_CONVERTOR: Final = re.compile(r":\w+}")


class Operation(NamedTuple):
    """One request that a server answers."""

    #: Such as `GET /api/cursors`.
    request: str
    says: str
    #: Of the query, then headers of ours, as the page shows them.
    parameters: list[str]
    #: Fields of the JSON body, as the page shows them.
    fields: list[str]
    statuses: list[str]


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of HTTP."""
    return {
        "addresses": _addresses,
        "codes": lambda _: _codes(),
        "memory over HTTP": _memory,
        "metrics of workers": _metrics,
        "the Lab": lambda _: _operations(of_lab()),
        "conversations": lambda _: _operations(of_conversations()),
        "the console": lambda _: _operations(of_console()),
    }


def of_lab() -> list[Operation]:
    """Return the requests of the Lab."""
    app = build_app(lab=_lab())
    return [each for each in _described(app, is_camel=True) if "/api/" in each.request]


def of_conversations() -> list[Operation]:
    """Return the requests of conversations."""
    app = build_app(dispatch=_chats())
    return [each for each in _described(app, is_camel=True) if "/api/" in each.request]


def of_console() -> list[Operation]:
    """Return the requests that only the console has."""
    return [each for each in _described(_console()) if "/api/" in each.request]


def _lab() -> Lab:
    paths = SimpleNamespace(feedback=Path("feedback.jsonl"))
    return cast("Lab", SimpleNamespace(paths=paths, on_change=lambda _: None, stop=_no_store))


def _chats() -> Chats:
    return cast("Chats", SimpleNamespace(on_change=lambda _: None, stop=_no_store))


def _no_store() -> Onceward:
    message = "no request is expected here"
    raise AssertionError(message)


@cache
def _console() -> FastAPI:
    return build_app(context=_context())


def whole_app() -> FastAPI:
    """Return the application of the console with the Lab and conversations."""
    return build_app(context=_context(), lab=_lab(), dispatch=_chats())


def _context() -> ConsoleContext:
    return ConsoleContext(ow=_no_store, store_url="", version="0", actor="docs")


# --- what the OpenAPI document says ---------------------------------------------------------------


def _described(app: FastAPI, *, is_camel: bool = False) -> Iterator[Operation]:
    document = app.openapi()
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        shown = _camel(path) if is_camel else path
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            yield Operation(
                request=f"{method.upper()} {shown}",
                says=_first(operation.get("description") or operation.get("summary", "")),
                parameters=[*_parameters(operation, schemas)],
                fields=_fields(body.get("schema", {}), schemas),
                statuses=_statuses(operation["responses"]),
            )


def _camel(path: str) -> str:
    """Return an address with the names in it as the bodies spell them."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), path)


def _first(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _parameters(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        if each["in"] != "path":
            schema = _resolved(each["schema"], schemas)
            yield _field(each["name"], schema, is_needed=each.get("required", False))


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    """Return the fields of a body; of one that may be of several kinds, those of all of them."""
    kinds = [_resolved(each, schemas) for each in schema.get("oneOf", (schema,))]
    fields = {
        name: (_resolved(each, schemas), all(name in kind.get("required", ()) for kind in kinds))
        for kind in kinds
        for name, each in kind.get("properties", {}).items()
    }
    return [_field(name, each, is_needed=needed) for name, (each, needed) in fields.items()]


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    return cast("Mapping[str, Any]", schemas[name]) if name else schema


def _field(name: str, schema: Mapping[str, Any], *, is_needed: bool) -> str:
    """Return a field with what it may be, where that is one of a few words, and its default."""
    options = [schema, *schema.get("anyOf", ())]
    words = [word for each in options for word in each.get("enum", ())]
    shown = code(name) + ("\\*" if is_needed else "")
    if words:
        shown += f" ({code(*words)})"
    default = schema.get("default")
    if default in (None, "", False):
        return shown
    return f"{shown} = `{default:g}`" if isinstance(default, float) else f"{shown} = `{default}`"


def _statuses(responses: Mapping[str, Any]) -> list[str]:
    """Return the responses of one request, without those that the guard can give to any."""
    return sorted(each for each in responses if int(each) not in GUARD_RESPONSES)


def _operations(found: Iterable[Operation]) -> str:
    rows = [
        [
            code(each.request),
            each.says,
            ", ".join(each.parameters),
            ", ".join(each.fields),
            ", ".join(each.statuses),
        ]
        for each in sorted(found, key=lambda each: each.request.split()[::-1])
    ]
    return table(_HEADS, rows)


# --- what no OpenAPI document tells ---------------------------------------------------------------


def _addresses(old: str) -> str:
    """Make the table of pages and of what every server has."""
    apps = (_console(), build_app(lab=_lab()), build_app(dispatch=_chats()))
    found = {path for app in apps for path in _outside_api(app.routes)}
    shown = sorted({_camel(_CONVERTOR.sub("}", each)) for each in (*found, *SCREENS)})
    return kept_table(old, ["address", "answer"], [[code(each), None] for each in shown])


def _outside_api(routes: Iterable[BaseRoute]) -> Iterator[str]:
    for route in routes:
        inner = getattr(route, "original_router", None)  # As the framework keeps included ones.
        if inner is not None:
            yield from _outside_api(inner.routes)
        elif isinstance(route, Route) and (
            not route.path.startswith("/api/") or route.path.endswith("openapi.json")
        ):
            yield route.path


def _memory(old: str) -> str:
    from onceward.memory.http import build_app as build_memory  # noqa: PLC0415 - slow to import
    from onceward.memory.mcp.mcp_server import MemoryServer  # noqa: PLC0415

    app = build_memory(
        MemoryServer(cast("Onceward", SimpleNamespace(store=None))), names=(), port=1
    )
    rows = []
    for route in app.routes:
        assert isinstance(route, Route), route
        methods = route.methods or {"GET", "POST", "DELETE"}
        rows += [[code(f"{each} {route.path}"), None] for each in _ordered(methods)]
    return kept_table(old, ["request", "answer"], rows)


def _metrics(old: str) -> str:
    handler = workers_http._Handler  # noqa: SLF001 - the standard library finds methods by name, so do we
    methods = {name.removeprefix("do_") for name in dir(handler) if name.startswith("do_")}
    rows = [[code(f"{each} /metrics"), None] for each in _ordered(methods)]
    return kept_table(old, ["request", "answer"], rows)


def _ordered(methods: Iterable[str]) -> list[str]:
    """Return methods in a fixed order, without HEAD, which goes with every GET."""
    return [each for each in (*HTTPMethod,) if each in methods and each != HTTPMethod.HEAD]


def _codes() -> str:
    by_status: dict[int, list[str]] = {}
    for name, status in sorted(STATUS_OF_CODE.items()):
        by_status.setdefault(status, []).append(name)
    rows = [[str(status), code(*names)] for status, names in sorted(by_status.items())]
    return table(["status", "codes"], rows)
