"""Canonical names: normalize the names of concepts, files and dependencies; NFC for every name.

Pure, idempotent functions of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final, Literal

#: What separates the words of a dependency's name (PEP 503).
_SEPARATORS: Final = re.compile(r"[-_.]+")
_DRIVE: Final = re.compile(r"[A-Za-z]:/")
#: Lower-casing can create sequences that NFKC composes again; two passes suffice in practice.
_PASSES_MAX: Final = 5


def concept_slug(text: str) -> str:
    """Return the slug of a concept: NFKC, lower case, `-` for runs of anything but letters, digits.

    Combining marks belong to their letter. A text without a letter or digit is returned in NFC: a
    slug of `-` would merge all such concepts.
    """
    plain = _lower(text.strip())
    slug: list[str] = []
    for each in plain:
        if each.isalnum() or unicodedata.category(each)[0] == "M":
            slug.append(each)
        elif slug[-1:] != ["-"]:
            slug.append("-")
    has_word = any(each.isalnum() for each in slug)
    return "".join(slug) if has_word else unicodedata.normalize("NFC", text.strip())


def file_path(path: str, root: str = "") -> str:
    """Return a path with `/` separators, without `.`, `//` and resolvable `..`.

    An absolute path below `root`, the directory of the repository, becomes relative to it.
    """
    plain = _resolved(unicodedata.normalize("NFC", path.strip()))
    top = _resolved(root)
    if _is_absolute(top) and plain.startswith(f"{top.rstrip('/')}/"):
        inner = plain.removeprefix(top.rstrip("/")).lstrip("/")
        return inner or plain
    return plain


def dependency_name(text: str) -> str:
    """Return `name` or `name@version`: the name in lower case, `-` for runs of `-`, `_` and `.`.

    A leading `@` begins the scope of a name, not a version. The version is not changed.
    """
    plain = unicodedata.normalize("NFC", text.strip())
    name, mark, version = plain[1:].rpartition("@")
    name, version = (plain[:1] + name, version) if mark else (plain, "")
    canonical = _SEPARATORS.sub("-", _lower(name.strip(), "NFC"))
    version = version.strip()
    return f"{canonical}@{version}" if version else canonical


def canonical_name(name: str, root: str = "") -> str:
    """Return the canonical spelling of an entity's name.

    Names with the prefix `concept#`, `file#` or `dep#` have their own rule; all names are in NFC.
    """
    plain = unicodedata.normalize("NFC", name)
    prefix, mark, body = plain.partition("#")
    if not mark or prefix not in _RULES or not body.strip():
        return plain
    body = file_path(body, root) if prefix == "file" else _RULES[prefix](body)
    return f"{prefix}#{body}" if body else plain


_RULES: Final[dict[str, Callable[[str], str]]] = {
    "concept": concept_slug,
    "file": file_path,
    "dep": dependency_name,
}


def _lower(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Return the text normalised and in lower case; idempotent."""
    for _ in range(_PASSES_MAX):
        settled = unicodedata.normalize(form, unicodedata.normalize(form, text).lower())
        if settled == text:
            break
        text = settled
    return text


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _resolved(path: str) -> str:
    """Return a path without `.`, `//`, a trailing `/`, and `..` after a name.

    Lexical: no link is followed. A path of only such parts is not changed.
    """
    plain = path.replace("\\", "/")
    drive = found[0][:-1] if (found := _DRIVE.match(plain)) else ""
    rest = plain[len(drive) :]
    is_absolute = rest.startswith("/")
    steps: list[str] = []
    for step in rest.split("/"):
        if step in ("", "."):
            continue
        if step != "..":
            steps.append(step)
        elif steps and steps[-1] != "..":
            steps.pop()
        elif not is_absolute:
            steps.append(step)
    inner = "/".join(steps)
    if is_absolute:
        return f"{drive}/{inner}"
    return inner or plain
