"""Naming: which calls of a function are the same work.

The same call has the same key however it is spelled: by position, by name, or left to a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from onceward.errors import InvalidArgument, NotCanonical
from onceward.keys import canonical_json

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
#: Gives the key of a call, from the same arguments.
KeyOf = Callable[..., str]
#: Gives what tells two calls of one key apart, from the same arguments; None: nothing does.
FingerprintOf = Callable[..., object]

#: A parameter of this name is the transaction; no caller passes it.
TX: Final = "tx"


class ArgumentsThemselves:
    """What is compared unless something else is named: all arguments."""


ARGUMENTS: Final = ArgumentsThemselves()


class Naming:
    """How the calls of one function are named."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        key: KeyOf | str | None,
        fingerprint: FingerprintOf | ArgumentsThemselves | None,
    ) -> None:
        """Look at the function once, so that no call has to."""
        signature = inspect.signature(function)
        names = list(signature.parameters)
        self.takes_tx = TX in names
        self._tx_place = names.index(TX) if self.takes_tx else 0
        given = [each for each in signature.parameters.values() if each.name != TX]
        self._signature = signature.replace(parameters=given)
        self._names = tuple(each.name for each in given)
        #: Whether a call with that many positions can be named without binding it.
        self._is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in given)
        self._function = function
        self._key = key
        self._fingerprint = fingerprint

    def name(self, args: Args, kwargs: Kwargs) -> tuple[str, str]:
        """Return key and fingerprint of a call."""
        fingerprint = self._fingerprint_of(args, kwargs)
        if self._key is None:
            return fingerprint, fingerprint
        key = self._key if isinstance(self._key, str) else self._key(*args, **kwargs)
        if not isinstance(key, str):
            message = f"key: must be a string, not a {type(key).__name__}"
            raise InvalidArgument(message, fix='build it like f"charge#{order_id}"', field="key")
        return key, fingerprint

    def with_tx(self, tx: object, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Put the transaction where the function wants it."""
        place = self._tx_place
        if len(args) <= place:
            return args, {**kwargs, TX: tx}
        return (*args[:place], tx, *args[place:]), kwargs

    def _fingerprint_of(self, args: Args, kwargs: Kwargs) -> str:
        told = self._fingerprint
        if told is None and self._key is not None:
            return ""
        value = told(*args, **kwargs) if callable(told) else self._arguments(args, kwargs)
        try:
            return sha256(canonical_json(value, root=self._function.__name__)).hexdigest()
        except NotCanonical as exc:
            problem = exc.message.removeprefix(f"{exc.path}: ")
            fix = "pass key= and fingerprint=, functions of the arguments that give plain JSON"
            raise NotCanonical(exc.path, problem, fix=fix) from exc

    def _arguments(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        if self._is_plain and not kwargs and len(args) == len(self._names):
            return dict(zip(self._names, args, strict=True))
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments
