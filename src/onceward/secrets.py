"""Secrets: what must not be written down, and how it is blotted out of texts and JSON values.

Owns which variables of the environment hold secrets and which forms give one away wherever it
stands. Knows not who writes the text, nor where to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

#: What stands where a secret stood.
REDACTED: Final = "[redacted]"
#: A shorter value is no secret to look for: it would blot out half of every text.
VALUE_CHARACTERS_MIN: Final = 6

_VARIABLE: Final = re.compile(r"(?:(?:^|_)(?:TOKEN|KEY|SECRET)|PASSWORD|PASSWD)$", re.IGNORECASE)
#: Capitals, as in the environment, or one of the usual names; `idempotency_key` and `max_tokens`
#: are neither.
_NAME: Final = (
    r"(?:[A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD)|(?:PG)?PASSWORD|TOKEN|SECRET|token|secret"
    r"|(?:[a-z0-9]+[_-])*(?:api|access|auth|client|private|refresh|secret)[_-]?(?:key|token|secret)"
    r"|(?:[a-z0-9]+_)*(?:password|passwd))"
)
_NAMED: Final = re.compile(_NAME)
#: A number as JSON writes it, or with zeros before it.
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_BLOCK_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK: Final = re.compile(rf"{_BLOCK_BEGIN.pattern}.*?(?:{_BLOCK_END.pattern}|\Z)", re.DOTALL)
_ASSIGNED: Final = (
    rf"((?:(?<![A-Za-z0-9_-])|(?<=[\s\"']--)|(?<=^--)){_NAME}\\?[\"']?\s{{0,3}}[=:]\s{{0,3}})"
    r"(?!\s|\[redacted\])"
    r"(?:\\\"[^\"\n]*\"?|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
    r"|[\[{][^\]}\n]*[\]}]?[^\s,;}\"']*|[^\s,;}\"']+)"
)
_AUTHORIZED: Final = (
    r"(\b(?i:Authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?i:Bearer|Basic|Token)\s{1,3})"
    r"[^\s\"',]+"
)
#: Forms that give a secret away, each keeping its first group, by what stands in every text that
#: holds one: to look for that is quick. A look behind pins each form to the start of a word, so
#: that no text, however long, is walked through more than once for each.
_FORMS: Final = tuple(
    (hints, re.compile(pattern))
    for hints, pattern in (
        (("token", "key", "secret", "passw"), _ASSIGNED),
        (("authorization",), _AUTHORIZED),
        (("bearer",), r"(\b(?i:Bearer)\s{1,3})[A-Za-z0-9._~+/-]{16,}=*"),
        (("://",), r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)[^\s/@]+(?=@)"),
        (("sk-",), r"()(?<![\w-])sk-[A-Za-z0-9_-]{16,}"),
        (("gh", "github_pat_"), r"()(?<![\w-])(?:gh[oprsu]_|github_pat_)\w{16,}"),
        (
            ("glpat-", "xox", "hf_", "npm_", "pypi-"),
            r"()(?<![\w-])(?:glpat-|xox[abeoprs]-|hf_|npm_|pypi-)[\w-]{16,}",
        ),
        (("akia", "asia"), r"()(?<![\w-])(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)"),
        (("eyj",), r"()(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    )
)


class Redactor:
    """Blots out the secrets it knows, and whatever looks like one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Look for these values besides the well-known forms; short ones are left alone."""
        known = {form for value in values for form in _written(value)}
        # The longest first, so that no part of a secret stays behind a shorter one.
        ordered = sorted(known, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._numbers = {number for form in known for number in _numbers(form)}

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Redactor:
        """Look for the values of `*_TOKEN`, `*_KEY`, `*_SECRET` and `*_PASSWORD`."""
        return cls(value for name, value in env.items() if _VARIABLE.search(name))

    def text(self, text: str) -> str:
        """Return the text without its secrets."""
        if "PRIVATE KEY" in text:
            text = _BLOCK.sub(REDACTED, text)
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        lower = text.lower()
        for hints, form in _FORMS:
            if any(hint in lower for hint in hints):
                text = form.sub(rf"\g<1>{REDACTED}", text)
        return text

    def value(self, value: object) -> object:
        """Return a JSON value without its secrets: texts, names of fields, and numbers."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._field(str(name), value[name]) for name in value}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, (int, float)) and value in self._numbers:
            return REDACTED
        return value

    def lines(self) -> RedactedLines:
        """Return a redactor of one stream of lines."""
        return RedactedLines(self)

    def _field(self, name: str, value: object) -> object:
        # Whatever it is: a list, an object or a number can hold a secret as well as a text.
        if value is not None and value != "" and _NAMED.fullmatch(name):
            return REDACTED
        return self.value(value)


class RedactedLines:
    """One stream, some lines at a time: a private key is blotted out over all that it takes."""

    def __init__(self, redactor: Redactor) -> None:
        """Begin outside of any key."""
        self._redactor = redactor
        self._in_block = False

    def line(self, text: str) -> str:
        """Return the next line, or several, without their secrets."""
        if self._in_block:
            ended = _BLOCK_END.search(text)
            if ended is None:
                return REDACTED
            self._in_block = False
            return REDACTED + self.line(text[ended.end() :])
        begins = list(_BLOCK_BEGIN.finditer(text))
        self._in_block = bool(begins) and not _BLOCK_END.search(text, begins[-1].end())
        return self._redactor.text(text)


def _written(value: str) -> set[str]:
    """Return the ways in which a secret may be written: whole, by lines, in JSON, in an address."""
    texts = {value, value.strip(), *map(str.strip, value.splitlines())}
    long_enough = {text for text in texts if len(text) >= VALUE_CHARACTERS_MIN}
    escaped = {json.dumps(text)[1:-1] for text in long_enough}
    escaped |= {json.dumps(text, ensure_ascii=False)[1:-1] for text in long_enough}
    return long_enough | escaped | {_quoted(text) for text in long_enough}


def _numbers(text: str) -> set[float]:
    """Return the numbers that a secret may be read as, if it is one that is long enough."""
    if not _NUMBER.fullmatch(text):
        return set()
    # Readers differ in whether they keep the last digits of a long one.
    read: set[float] = {float(text), *({int(text)} if text.lstrip("-").isdigit() else ())}
    # 000001 would be looked for as 1, and blot out every other count.
    return {each for each in read if len(str(each).removesuffix(".0")) >= VALUE_CHARACTERS_MIN}


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
