"""Redaction: find secrets in texts and JSON values, and replace them before they are stored.

Defines which environment variables hold secrets, and which textual forms reveal one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

#: Replaces a secret.
REDACTED: Final = "[redacted]"
#: Shorter values are not redacted: they would match in too many places.
VALUE_CHARACTERS_MIN: Final = 6

_VARIABLE: Final = re.compile(
    r"(?:(?:^|_)(?:TOKEN|KEY|SECRET|PASS)|PASSWORD|PASSWD|PASSPHRASE)$", re.IGNORECASE
)
_KEY: Final = r"(?:api|access|auth|client|private|refresh|secret)[_-]?(?:key|token|secret)"
_PASSWORD: Final = r"(?:password|passwd|passphrase)"  # noqa: S105 - what one is called
#: Capitals, as in the environment, or one of the usual names; `idempotency_key` and `max_tokens`
#: are neither.
_NAME: Final = (
    r"(?:[A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASS)|TOKEN|SECRET|token|secret"
    rf"|(?i:(?:[a-z0-9]+[_-])*{_KEY}|[a-z0-9_-]*{_PASSWORD}))"
)
_NAMED: Final = re.compile(_NAME)
#: A number as JSON writes it, or with zeros before it.
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_BLOCK_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK: Final = re.compile(rf"{_BLOCK_BEGIN.pattern}.*?(?:{_BLOCK_END.pattern}|\Z)", re.DOTALL)
_ASSIGNED: Final = (
    rf"((?<![A-Za-z0-9_-])-{{0,2}}{_NAME}\\?[\"']?\s{{0,3}}[=:](?:[ \t]{{0,40}}|\s{{0,3}}))"
    r"(?!\s|\[redacted\])"
    r"(?:\\\"[^\"\n]*\"?|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
    r"|[\[{][^\]}\n]*[\]}]?[^\s,;}\"']*|[^\s,;}\"']+)"
)
_AUTHORIZED: Final = (
    r"(\b(?i:Authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?i:Bearer|Basic|Token)\s{1,3})"
    r"[^\s\"',]+"
)
#: `--token`, `-password`, `--github-api-key`; `--max-token` and `--token-count` are about others.
_FLAG: Final = (
    r"(?<![\w-])-{1,2}(?!(?:max|min|num|next|page|stop|bos|eos|pad)[_-])"
    rf"(?i:(?:[a-z0-9]+[_-])*(?:token|secret|{_KEY}|{_PASSWORD}))"
)
#: Words after a flag in prose: `--token is missing`.
_PROSE: Final = (
    r"(?:an?|and|are|argument|as|be|but|by|can|cannot|does|expects?|flag|for|from|given|has|if|in"
    r"|instead|invalid|is|it|may|missing|must|needs?|no|not|of|on|only|option|or|requires?|required"
    r"|should|takes?|than|that|the|then|this|to|unknown|value|was|when|which|will|with|without)"
    r"(?=[\s.,;:!?)]|$)"
)
_GIVEN: Final = (
    rf"({_FLAG}(?:=|[ \t]{{1,3}}(?!{_PROSE})))(?!-|\[redacted\])"
    r"(?:\"(?:[^\"\\\n]|\\.)*\"?|'[^'\n]*'?|[^\s\"'`])+"
)
#: The same where a list of words is shown: `['login', '--token', 'abc']`.
_LISTED: Final = rf"({_FLAG}\\?[\"'],\s{{0,3}}\\?[\"'])(?!-|\[redacted\])[^\"'\\\n]+"
#: User name and password, for programs that take both in one argument.
_FETCH: Final = re.compile(r"(?<![\w-])(?:curl|https?)\s(?:[^\n\\]|\\[\s\S])*")
_USER: Final = re.compile(
    r"((?<!\S)(?:-u|-U|-a|--user|--proxy-user|--auth)(?:[ \t]{0,3}|=)[\"']?[^\s:\"'=-][^\s:\"']*:)"
    r"(?!//|\[redacted\])[^\s\"']+"
)
_FETCHERS: Final = frozenset({"curl", "http", "https"})
_USER_FLAGS: Final = frozenset({"-u", "-U", "-a", "--user", "--proxy-user", "--auth"})
_SECRET_FLAG: Final = re.compile(_FLAG)
_SECRET_WORD: Final = re.compile(rf"((?:{_FLAG}|-{{0,2}}{_NAME})=)(.+)", re.DOTALL)
#: Forms that reveal a secret; each keeps its first group. The hints are substrings of every match,
#: for a fast pre-check. A lookbehind anchors each form at the start of a word, so that long texts
#: are scanned only once per form.
_FORMS: Final = tuple(
    (hints, re.compile(pattern))
    for hints, pattern in (
        (("token", "key", "secret", "passw", "passphrase", "_pass"), _ASSIGNED),
        (("token", "key", "secret", "passw", "passphrase"), _GIVEN),
        (("token", "key", "secret", "passw", "passphrase"), _LISTED),
        (("authorization",), _AUTHORIZED),
        (("bearer",), r"(\b(?i:Bearer)\s{1,3})[A-Za-z0-9._~+/-]{16,}=*"),
        (("://",), r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)[^\s/@]+(?=@)"),
        # A token instead of a name; names are short, or have no digits.
        (
            ("://",),
            r"(\bhttps?://)(?:(?=[^\s/:@]{0,200}[0-9])[^\s/:@]{8,200}|[^\s/:@]{20,200})(?=@)",
        ),
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
    """Redacts known secrets, and text that looks like a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Redact these values in addition to the well-known forms; short values are ignored."""
        known = {form for value in values for form in _written(value)}
        # The longest first, so that a shorter secret leaves no part of a longer one.
        ordered = sorted(known, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._numbers = {number for form in known for number in _numbers(form)}

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Redactor:
        """Redact the values of `*_TOKEN`, `*_KEY`, `*_SECRET` and `*_PASSWORD`."""
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
        if "curl" in lower or "http" in lower:
            text = _FETCH.sub(lambda found: _USER.sub(rf"\g<1>{REDACTED}", found[0]), text)
        return text

    def words(self, words: Sequence[str]) -> list[str]:
        """Redact the arguments of a command, including values of secret flags."""
        clean: list[str] = []
        is_fetching = any(word.rpartition("/")[2] in _FETCHERS for word in words)
        for before, word in zip(("", *words), words, strict=False):
            user, colon, rest = word.partition(":")
            if _SECRET_FLAG.fullmatch(before) and not word.startswith("-"):
                clean.append(REDACTED)
            elif is_fetching and before in _USER_FLAGS and colon and not rest.startswith("//"):
                clean.append(f"{self.text(user)}:{REDACTED}")
            elif named := _SECRET_WORD.fullmatch(word):
                clean.append(f"{named[1]}{REDACTED}")
            else:
                clean.append(self.text(word))
        return clean

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
        # Of any type: a list, an object or a number can be a secret, too.
        if value is not None and value != "" and _NAMED.fullmatch(name):
            return REDACTED
        return self.value(value)


class RedactedLines:
    """Redacts a stream line by line; private keys are redacted across lines."""

    def __init__(self, redactor: Redactor) -> None:
        """Start outside of any private key."""
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
    """Return the forms of a secret: complete, by lines, JSON-escaped, URL-quoted."""
    texts = {value, value.strip(), *map(str.strip, value.splitlines())}
    long_enough = {text for text in texts if len(text) >= VALUE_CHARACTERS_MIN}
    escaped = {json.dumps(text)[1:-1] for text in long_enough}
    escaped |= {json.dumps(text, ensure_ascii=False)[1:-1] for text in long_enough}
    return long_enough | escaped | {_quoted(text) for text in long_enough}


def _numbers(text: str) -> set[float]:
    """Return the numbers as which a secret may be parsed, if long enough."""
    if not _NUMBER.fullmatch(text):
        return set()
    # Readers differ in whether they keep the last digits of a long one.
    read: set[float] = {float(text), *({int(text)} if text.lstrip("-").isdigit() else ())}
    # 000001 would be searched for as 1, and redact many counts.
    return {each for each in read if len(str(each).removesuffix(".0")) >= VALUE_CHARACTERS_MIN}


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
