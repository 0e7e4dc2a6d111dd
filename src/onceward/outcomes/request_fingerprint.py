"""Request fingerprint: encode the payload and caller that requests with one key must share.

One text holds both, so that a claim compares them at once; the two can be separated again.
"""

from __future__ import annotations

from typing import Final

_CALLER: Final = " caller="


def with_caller(payload: str, caller: str) -> str:
    """Return the fingerprint of a payload that a caller sent; an empty caller is anonymous.

    Without a caller it is the payload itself, as workers have it. A payload that contains the
    separator always gets one more, so that no payload equals another payload with its caller.
    """
    return f"{payload}{_CALLER}{caller}" if caller or _CALLER in payload else payload


def is_other_caller(first: str, second: str) -> bool:
    """Return whether two fingerprints have different callers, whatever their payloads are."""
    return _caller(first) != _caller(second)


def _caller(fingerprint: str) -> str:
    _, separator, caller = fingerprint.rpartition(_CALLER)
    return caller if separator else ""
