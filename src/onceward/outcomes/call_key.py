"""Call key: derive the idempotency key of an `@once` call from its arguments.

The same call has the same key whether arguments are passed by position, by name or by default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from onceward.errors import InvalidArgument, NotCanonical
from onceward.keys.canonical import scalars_json
from onceward.keys.values import value_json

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
#: Returns the key of a call, from the same arguments.
KeyOf = Callable[..., str]
#: Returns the value that calls with one key must share, from the same arguments.
FingerprintOf = Callable[..., object]

#: The parameter that receives the transaction; no caller passes it.
TX: Final = "tx"
#: Names of a method's first parameter.
RECEIVERS: Final = frozenset({"self", "cls"})


class AllArguments:
    """The default fingerprint: all arguments are compared."""


ALL_ARGUMENTS: Final = AllArguments()


class CallKeyBuilder:
    """Derives key and fingerprint of each call of one function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        key: KeyOf | str | None,
        fingerprint: FingerprintOf | AllArguments | None,
        key_since: Mapping[str, object] | None = None,
    ) -> None:
        """Inspect the function once, so that calls need not."""
        signature = inspect.signature(function)
        names = list(signature.parameters)
        #: `self` or `cls` of a method, which is no part of a key.
        self._receiver = names[0] if names and names[0] in RECEIVERS else None
        _check_function(function, self._receiver, has_key=key is not None)
        self.takes_tx = TX in names
        self._tx_index = names.index(TX) if self.takes_tx else 0
        given = [each for each in signature.parameters.values() if each.name != TX]
        self._signature = signature.replace(parameters=given)
        self._names = tuple(each.name for each in given)
        #: Whether a call with all arguments by position needs no binding.
        self._is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in given)
        self._function = function
        #: Parameters that are omitted from the arguments while they have these values.
        self._omitted = {
            name: value_json(value, root=f"key_since.{name}")
            for name, value in (key_since or {}).items()
        }
        for name in self._omitted:
            if name not in self._names:
                message = f"key_since: there is no parameter {name!r}"
                fix = f"use one of {', '.join(self._names)}" if self._names else "leave it out"
                raise InvalidArgument(message, fix=fix, field="key_since")
        self._omits = bool(self._omitted) or self._receiver is not None
        self._key = key
        self._fingerprint = fingerprint
        #: Whether calls with scalars alone need no general encoder.
        self._is_quick = (
            fingerprint is ALL_ARGUMENTS
            and self._is_plain
            and not self._omits
            and all(name.isascii() for name in self._names)
        )

    def build(self, args: Args, kwargs: Kwargs) -> tuple[str, str]:
        """Return key and fingerprint of a call."""
        fingerprint = self._fingerprint_of(args, kwargs)
        if self._key is None:
            return fingerprint, fingerprint
        key = self._key if isinstance(self._key, str) else self._key(*args, **kwargs)
        if not isinstance(key, str):
            message = f"key: must be a string, not a {type(key).__name__}; nothing was done"
            fix = 'return a string from key=, such as f"charge#{order_id}"'
            raise InvalidArgument(message, fix=fix, field="key")
        return key, fingerprint

    def with_tx(self, tx: object, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Insert the transaction at the position of the parameter `tx`."""
        place = self._tx_index
        if len(args) <= place:
            return args, {**kwargs, TX: tx}
        return (*args[:place], tx, *args[place:]), kwargs

    def _fingerprint_of(self, args: Args, kwargs: Kwargs) -> str:
        chosen = self._fingerprint
        if chosen is None and self._key is not None:
            return ""
        if self._is_quick and not kwargs and len(args) == len(self._names):
            quick = scalars_json(self._names, args)
            if quick is not None:
                return sha256(quick).hexdigest()
        value = chosen(*args, **kwargs) if callable(chosen) else self._arguments(args, kwargs)
        try:
            return sha256(value_json(value, root=self._function.__name__)).hexdigest()
        except NotCanonical as exc:
            problem = exc.message.removeprefix(f"{exc.path}: ")
            instead = (
                "pass key= and fingerprint=, functions of the arguments that return plain JSON"
            )
            fix = f"{exc.fix}, or {instead}" if exc.fix else instead
            raise NotCanonical(exc.path, problem, fix=fix) from exc

    def _arguments(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        if self._is_plain and not kwargs and len(args) == len(self._names):
            found = dict(zip(self._names, args, strict=True))
        else:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            found = bound.arguments
        return self._compared(found) if self._omits else found

    def _compared(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments to compare: without `self` and unchanged `key_since` parameters."""
        found = {name: each for name, each in arguments.items() if name != self._receiver}
        for name, value in self._omitted.items():
            if value_json(found[name], root=f"{self._function.__name__}.{name}") == value:
                del found[name]
        return found


def _check_function(function: Callable[..., Any], receiver: str | None, *, has_key: bool) -> None:
    """Reject generators, and methods without a key."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = "once: the function is a generator, which has no single result to record"
        fix = "return a list, or decorate the functions that it calls"
        raise InvalidArgument(message, fix=fix, field="once")
    if receiver is not None and not has_key:
        message = f"key: a method needs one, because `{receiver}` is not part of the default key"
        fix = 'pass key=, such as key=lambda self, order_id: f"charge#{order_id}"'
        raise InvalidArgument(message, fix=fix, field="key")
