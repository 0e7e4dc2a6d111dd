"""Result encoding: store a function's result as JSON, and restore the annotated type.

pydantic writes and reads; it is imported when a result first needs it. A function without an
annotation, or with a plain one such as `dict[str, Any]`, returns plain JSON and never needs it.
"""

from __future__ import annotations

import inspect
import json
import logging
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from onceward.errors import NotCanonical, ResultNotStored
from onceward.keys import compact_json
from onceward.keys.encoding import read_json
from onceward.keys.values import value_json
from onceward.outcomes.step_drivers import CallResult

_log: Final = logging.getLogger("onceward.outcomes")

#: Types that JSON reads back exactly; pydantic handles what does not fit.
_SCALARS: Final = frozenset({str, int, bool, type(None)})
#: Annotations that mean plain JSON, and the type that it reads back as.
_CONTAINERS: Final[dict[Any, type]] = {
    dict: dict,
    list: list,
    dict[str, Any]: dict,
    list[Any]: list,
}
#: pydantic writes this in place of every secret.
_MASK: Final = b"**********"
#: For types without a configuration of their own.
_CONFIG: Final[Any] = {
    "ser_json_bytes": "base64",
    "val_json_bytes": "base64",
    "ser_json_inf_nan": "constants",
}


class ResultEncoder:
    """Writes and reads the results of one function."""

    def __init__(
        self, function: Callable[..., Any], local: Mapping[str, Any] | None = None
    ) -> None:
        """Inspect the return annotation; `local` holds names known only where it is defined.

        An annotation that cannot be resolved yet is resolved at the first result.
        """
        routine = function if inspect.isroutine(function) else type(function).__call__
        self._function = inspect.unwrap(getattr(routine, "__func__", routine))
        annotations = getattr(self._function, "__annotations__", {})
        self._annotation: Any = annotations.get("return", Any)
        if local is not None:
            self._annotation = _resolve_annotation(self._function, self._annotation, local)
        self._is_ready = False
        #: Types that need no pydantic; None: any JSON value.
        self._plain: frozenset[type] | None = None
        #: Whether pydantic handles what is not plain.
        self._is_typed = False

    def write(self, value: object) -> bytes:
        """Return a result as JSON; NotCanonical when it cannot be stored."""
        plain = self._plain_types()
        if plain is None or type(value) in plain:
            try:
                return compact_json(value, root="result")
            except NotCanonical:
                if not self._is_typed:
                    raise
        adapter = self._adapter()
        return (
            compact_json(value, root="result") if adapter is None else _encode_typed(adapter, value)
        )

    def read(self, text: bytes) -> Any:  # noqa: ANN401 - the function's own result
        """Return a stored result as the annotated type, or as plain JSON if it does not fit."""
        plain = self._plain_types()
        if plain is None:
            return read_json(text)
        if plain and type(value := _quickly(text)) in plain:
            return value
        adapter = self._adapter()
        try:
            if adapter is not None:
                return adapter.validate_json(text, strict=True, by_alias=True, by_name=True)
        except Exception as exc:  # noqa: BLE001 - validators are the user's
            problem = type(exc).__name__
        else:
            problem = "" if self._is_typed else "another type"
        if problem:
            name = getattr(self._function, "__qualname__", self._function)
            _log.warning("the result of %s does not fit its annotation: %s", name, problem)
        return read_json(text)

    def _adapter(self) -> Any:  # noqa: ANN401 - a TypeAdapter or None
        try:
            return _adapter_of(self._annotation) if self._is_typed else None
        except TypeError:  # It has no hash: `Annotated` with a list, for example.
            return _adapter_of.__wrapped__(self._annotation)

    def _plain_types(self) -> frozenset[type] | None:
        """Return the types that need no pydantic; None where any JSON value is accepted."""
        if not self._is_ready:
            found = _resolve_annotation(self._function, self._annotation, {})
            self._annotation = Any if isinstance(found, str) else found
            self._plain = _plain_types_of(self._annotation)
            # What is inside of a plain container may be anything, hence it is strictly JSON.
            self._is_typed = self._plain is not None and self._plain <= _SCALARS
            self._is_ready = True
        return self._plain


def _quickly(text: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return Ellipsis  # An integer too large for a float; no JSON value is this.


def _resolve_annotation(function: Any, annotation: Any, local: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type
    """Return an annotation with its names resolved, or unchanged if one is unknown."""
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"return": annotation})
    try:
        names = {**inspect.getclosurevars(function).nonlocals, **local}
        hints = typing.get_type_hints(holder, function.__globals__, names, include_extras=True)
    except Exception:  # noqa: BLE001 - names that are missing, and whatever evaluating them raises
        return annotation
    return hints["return"]


def _plain_types_of(annotation: Any) -> frozenset[type] | None:  # noqa: ANN401 - any type
    """Return the types that plain JSON preserves: None for all, empty for none."""
    if annotation is Any or annotation is object:
        return None
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if is_union else (annotation,)
    kinds = [type(None) if each is None else each for each in members]
    try:
        return frozenset(kind if kind in _SCALARS else _CONTAINERS[kind] for kind in kinds)
    except (KeyError, TypeError):
        return frozenset()


@lru_cache(maxsize=512)
def _adapter_of(annotation: Any) -> Any:  # noqa: ANN401 - any type; a TypeAdapter or None
    """Return pydantic's adapter for a type, or None for a type that pydantic does not know."""
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415 - slow to import, and seldom needed
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - the same

        try:
            return TypeAdapter(annotation, config=_CONFIG)
        except PydanticUserError:  # The type has a configuration.
            return TypeAdapter(annotation)
    except Exception:  # noqa: BLE001 - inspecting a class runs the user's code
        return None


def _encode_typed(adapter: Any, value: object) -> bytes:  # noqa: ANN401 - a TypeAdapter
    """Return a result as JSON by its annotation; a value of another type as it is."""
    try:
        tree = adapter.dump_python(value, mode="json", round_trip=True, warnings="error")
    except Exception as exc:  # noqa: BLE001 - serializers are the user's
        try:
            return compact_json(value, root="result")
        except NotCanonical as not_canonical:
            raise not_canonical from exc
    path = "result"
    try:
        # Not by canonical rules: integers may be large.
        text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise NotCanonical(path, f"is not JSON: {exc}"[:200]) from exc
    if _MASK in text and b'"$secret"' in value_json(value, root=path):
        problem = "holds a secret, which is not stored"
        raise NotCanonical(path, problem, fix="return it without the secret")
    return text


def encode_result(
    results: ResultEncoder, value: object, name: str
) -> tuple[bytes | None, CallResult]:
    """Return a result as stored, and what this and every later caller gets."""
    try:
        text = results.write(value)
    except NotCanonical as exc:
        message = (
            f"{name}: was done, and does not run again; its result cannot be stored: {exc.message}"
        )
        _log.warning("%s", message)
        error = ResultNotStored(message, value=value, path=exc.path)
        error.__cause__ = exc
        return None, CallResult(error=error)
    return text, CallResult(value=results.read(text))
