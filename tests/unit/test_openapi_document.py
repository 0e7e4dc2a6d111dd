"""The OpenAPI document of everything that is served: each JSON answer has a model with a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.openapi_document import whole_document

#: Answers with the bytes of a file, which may hold any JSON.
FILES = "/api/runs/{run_id}/artifact/{name}"


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON body, of requests and of answers, with where it is."""
    for path, operations in whole_document()["paths"].items():
        for method, operation in operations.items():
            answers = {} if path == FILES else operation["responses"]
            both = {**answers, "body": operation.get("requestBody", {})}
            for name, part in both.items():
                content = part.get("content", {})
                if "application/json" in content:
                    yield f"{method} {path} {name}", content["application/json"]["schema"]


def test_every_json_body_has_a_model_with_a_name() -> None:
    """None is free-form; one of several kinds names each of them."""
    found = list(bodies())
    free = [where for where, schema in found if not all("$ref" in each for each in kinds(schema))]
    assert len(found) > 500
    assert not free


def kinds(schema: dict[str, Any]) -> list[dict[str, Any]]:
    several: list[dict[str, Any]] = schema.get("oneOf", [schema])
    return several


def test_every_answer_is_documented() -> None:
    """Of success too: no route leaves it to the framework."""
    operations = [
        (path, operation)
        for path, each in whole_document()["paths"].items()
        for operation in each.values()
    ]
    assert [path for path, operation in operations if not successes(operation)] == []


def successes(operation: dict[str, Any]) -> list[str]:
    answers = operation["responses"].items()
    return [status for status, answer in answers if status < "300" and answer.get("content")]


def test_models_have_names_of_their_own() -> None:
    """Two of one name would differ by their modules, in the types of the pages too."""
    names = whole_document()["components"]["schemas"]
    assert [name for name in names if "__" in name or name.endswith(("-Input", "-Output"))] == []


def test_answers_have_exactly_the_fields_of_their_models() -> None:
    """A field that is left out or added is noticed when an answer is held against its model."""
    models = whole_document()["components"]["schemas"]
    page = models["Page_CursorItem_"]
    assert page["required"] == ["items", "next", "as_of"]
    assert page["additionalProperties"] is False
