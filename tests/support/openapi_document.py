"""The OpenAPI document of everything that is served, and answers held against it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from docs.make.openapi import document

whole_document = cache(document)


def assert_documented(response: httpx.Response) -> None:
    """Check that a JSON answer has the schema that the document gives for it.

    Addresses with names in them are those of the Lab and of conversations, whose tests have models.
    """
    request, kind = response.request, response.headers.get("content-type", "")
    operations = whole_document()["paths"].get(request.url.path, {})
    if not kind.startswith("application/json") or request.method.lower() not in operations:
        return
    operation = operations[request.method.lower()]
    assert str(response.status_code) in operation["responses"], (str(request.url), response.text)
    _validator(request.url.path, request.method.lower(), str(response.status_code)).validate(
        json.loads(response.content)
    )


@cache
def _validator(path: str, method: str, status: str) -> jsonschema_rs.Validator:
    whole = whole_document()
    answer = whole["paths"][path][method]["responses"][status]
    schema: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return jsonschema_rs.validator_for({**schema, "components": whole["components"]})
