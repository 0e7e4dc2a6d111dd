"""Statuses: what HTTP calls each of our errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The HTTP status of every error code; a code that is not here is our own mistake, hence 500.
STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "INVALID_CURSOR": 400,
    "INVALID_JSON": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "FILE_NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CONFLICT": 409,
    "IN_FLIGHT": 409,
    "AMBIGUOUS": 409,
    "RECORDED_FAILURE": 409,
    "JOINED_CONCURRENTLY": 409,
    "RESULT_NOT_STORED": 409,
    "KEY_EXPIRED": 410,
    "TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RANGE_NOT_SATISFIABLE": 416,
    "MISDIRECTED": 421,
    "KEY_REUSED": 422,
    "INTERNAL": 500,
    "OUTCOME_UNKNOWN": 503,
    "UNAVAILABLE": 503,
}
