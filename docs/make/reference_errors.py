"""Make the reference of errors: each as Python, HTTP and the command line know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs.make.regions import Maker, code, table
from onceward import errors
from onceward.cli.main import exit_code
from onceward.errors.http_status import STATUS_OF_CODE


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of errors."""
    return {"errors": lambda _: _listed()}


def all_errors(
    kind: type[errors.OncewardError] = errors.OncewardError,
) -> Iterator[type[errors.OncewardError]]:
    """Give every error that can be caught by name, each before those that derive from it."""
    if getattr(errors, kind.__name__, None) is kind:
        yield kind
    for each in sorted(kind.__subclasses__(), key=lambda each: each.__name__):
        yield from all_errors(each)


def _listed() -> str:
    rows = [
        [
            code(kind.__name__),
            "" if kind is errors.OncewardError else code(kind.__bases__[0].__name__),
            code(kind.code),
            str(STATUS_OF_CODE[kind.code]),
            str(exit_code(kind)),
            "yes" if kind.retryable else "no",
            (kind.__doc__ or "").splitlines()[0],
        ]
        for kind in dict.fromkeys(all_errors())
    ]
    return table(["class", "is a", "code", "HTTP", "exit", "retryable", "meaning"], rows)
