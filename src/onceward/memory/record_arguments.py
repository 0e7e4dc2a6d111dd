"""Record arguments: validate and redact the arguments of a record."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors import InvalidArgument
from onceward.memory.entity_types import TYPES
from onceward.memory.models import NewEntity
from onceward.system.redaction import Redactor

#: A relation type and the entity that a record relates to by name.
RelatedEntity = tuple[str, NewEntity]


class RecordArguments:
    """Validates and redacts arguments; every error names the argument."""

    def __init__(self, redactor: Redactor) -> None:
        """Redact with this redactor."""
        self.redactor = redactor

    def text(self, field: str, value: object) -> str:
        """Return a redacted string."""
        if not isinstance(value, str):
            message = f"{field}: must be a string, not a {type(value).__name__}"
            raise InvalidArgument(message, fix="pass a string", field=field)
        return self.redactor.text(value)

    def non_empty_text(self, field: str, value: object) -> str:
        """Return a redacted string that is not blank."""
        text = self.text(field, value)
        if not text.strip():
            message = f"{field}: must not be empty or blank"
            raise InvalidArgument(message, fix="pass a text that is not blank", field=field)
        return text

    def text_list(self, field: str, values: object) -> list[str]:
        """Return a list of redacted strings that are not blank."""
        if not isinstance(values, Sequence) or isinstance(values, str | bytes):
            message = f"{field}: must be a list of strings, not a {type(values).__name__}"
            raise InvalidArgument(message, fix="pass a list of strings", field=field)
        return [self.non_empty_text(f"{field}[{at}]", value) for at, value in enumerate(values)]

    def json(self, field: str, value: object) -> object:
        """Return a redacted JSON value; the envelope validates its shape."""
        try:
            return self.redactor.value(value)
        except RecursionError as exc:
            message = f"{field}: is nested too deeply"
            raise InvalidArgument(message, fix="use fewer levels of nesting", field=field) from exc

    def related_entities(
        self, relation: str, entity_type: str, field: str, values: object
    ) -> list[RelatedEntity]:
        """Return entities that can be created from their names alone."""
        prefix = f"{TYPES[entity_type]}#"
        named = []
        for at, value in enumerate(self.text_list(field, values)):
            # The full name is accepted as well; without a version there is no @.
            body = self.non_empty_text(
                f"{field}[{at}]", value.removeprefix(prefix).removesuffix("@")
            )
            named.append((relation, NewEntity(name=prefix + body, entity_type=entity_type)))
        return named
