"""Arguments: what a record is told, checked and without secrets, before anything is made of it."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors import InvalidArgument
from onceward.memory.models import NewEntity
from onceward.memory.vocabulary import TYPES
from onceward.secrets import Redactor

#: What is named by a record, and how the record is related to it.
Named = tuple[str, NewEntity]


class Arguments:
    """Takes arguments in; every refusal names the one that is wrong."""

    def __init__(self, redactor: Redactor) -> None:
        """Take these secrets out."""
        self.redactor = redactor

    def text(self, field: str, value: object) -> str:
        """Return a text."""
        if not isinstance(value, str):
            message = f"{field}: must be text"
            raise InvalidArgument(message, fix="pass a string", field=field)
        return self.redactor.text(value)

    def filled(self, field: str, value: object) -> str:
        """Return a text that says something."""
        text = self.text(field, value)
        if not text.strip():
            message = f"{field}: must not be empty"
            raise InvalidArgument(message, fix=f"pass {field}", field=field)
        return text

    def texts(self, field: str, values: object) -> list[str]:
        """Return a list of texts that say something."""
        if not isinstance(values, Sequence) or isinstance(values, str | bytes):
            message = f"{field}: must be a list of texts"
            raise InvalidArgument(message, fix="pass a list", field=field)
        return [self.filled(f"{field}[{at}]", value) for at, value in enumerate(values)]

    def json(self, field: str, value: object) -> object:
        """Return a JSON value; its envelope checks the shape."""
        try:
            return self.redactor.value(value)
        except RecursionError as exc:
            message = f"{field}: is nested too deeply"
            raise InvalidArgument(message, fix="keep it flat", field=field) from exc

    def named(self, relation: str, entity_type: str, field: str, values: object) -> list[Named]:
        """Return entities that need nothing but their name to be created."""
        prefix = f"{TYPES[entity_type]}#"
        named = []
        for at, value in enumerate(self.texts(field, values)):
            # Who passes the whole name means the same; without a version there is no @.
            body = self.filled(f"{field}[{at}]", value.removeprefix(prefix).removesuffix("@"))
            named.append((relation, NewEntity(name=prefix + body, entity_type=entity_type)))
        return named
