"""Response schemas: name the model of a route's JSON answer in the OpenAPI document.

Routes answer bytes that are encoded already, so no validator is ever needed. FastAPI's
`response_model` would build one for each route and add about 100 ms to every start; here a schema
is made when the document is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

#: Where the document keeps its schemas.
SCHEMAS: Final = "#/components/schemas/"
#: Declared models by the name of their schema: dataclasses, typed dictionaries, pydantic models.
_declared: Final[dict[str, Any]] = {}


class _ResponseSchema(GenerateJsonSchema):
    """Schemas of answers: every field is present, and no other one is."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's core schema
        return {**super().dataclass_schema(schema), "additionalProperties": False}

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - the same
        return {**super().typed_dict_schema(schema), "additionalProperties": False}

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ANN401, FBT001 - the same
        # A default is for code that builds answers; only a typed dictionary leaves a field out.
        if field["type"] == "typed-dict-field":
            return super().field_is_required(field, total)
        return True

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - the same
        return False


def json_doc(model: type, description: str) -> dict[str, Any]:
    """Return the OpenAPI description of a JSON answer with this model."""
    name = _name_of(model)
    assert _declared.setdefault(name, model) == model, f"two response models are named {name}"
    content = {"application/json": {"schema": {"$ref": f"{SCHEMAS}{name}"}}}
    return {"description": description, "content": content}


def add_schemas(document: dict[str, Any]) -> None:
    """Add the schemas of all declared models that an OpenAPI document names."""
    text = str(document["paths"])
    wanted = {name: each for name, each in _declared.items() if f"{SCHEMAS}{name}'" in text}
    references, made = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(each)) for name, each in wanted.items()],
        ref_template=f"{SCHEMAS}{{model}}",
        schema_generator=_ResponseSchema,
    )
    for (name, _), reference in references.items():
        assert reference == {"$ref": f"{SCHEMAS}{name}"}, (name, reference)
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    added: Mapping[str, Any] = made.get("$defs", {})
    for name in schemas.keys() & added.keys():
        # An enumeration that is also a parameter.
        assert schemas[name] == added[name], (name, schemas[name], added[name])
    document["components"]["schemas"] = dict(sorted({**schemas, **added}.items()))


def _name_of(model: type) -> str:
    """Return the name of a model as pydantic writes it, such as `Page_AuditEntry_`."""
    origin = get_origin(model)
    if origin is None:
        return model.__name__
    return f"{origin.__name__}_{'_'.join(map(_name_of, get_args(model)))}_"
