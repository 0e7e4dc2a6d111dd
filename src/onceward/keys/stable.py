"""Stable keys: deterministic names for runs, commands, issues, fixes, files and dependencies.

Repeated observations of the same thing get the same name: varying parts (times, paths, hashes,
versions) are removed first.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from datetime import datetime
from typing import Final

from onceward.errors import InvalidArgument
from onceward.keys.canonical import canonical_json
from onceward.keys.encoding import well_formed
from onceward.keys.names import canonical_name

#: Bytes of a command's output that its fingerprint covers.
HEAD_BYTES_MAX: Final = 8 * 1024
#: Maximum length of the canonical command inside a key.
COMMAND_CHARACTERS_MAX: Final = 120

#: Characters that end a path in running text.
_ENDS: Final = r"\s\"'`()\[\]{}<>,;:|"
_TIMESTAMP: Final = re.compile(
    r"\b\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|[+-]\d\d:?\d\d)?(?![0-9a-z_])"
)
_URL_PATH: Final = re.compile(
    r"(?<![0-9a-z_])([a-z][a-z0-9+.-]{1,20}://[^\s/?#\"'`<>]+)[/?#][^\s\"'`<>]*"
)
_PATH: Final = re.compile(
    # A slash or a drive letter that is not inside a word; a full stop after it is prose.
    rf"(?<![^{_ENDS}=])(?:file://)?/(?!/)[^{_ENDS}]*[^{_ENDS}.!?]"
    rf"|(?<![0-9a-z_])[a-z]:\\[^{_ENDS}]*[^{_ENDS}.!?]"
)
#: `:line:col`, but not the end of a time of day.
_POSITION: Final = re.compile(r"(?<!\b\d)(?<!\b\d\d):\d+:\d+\b")
_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
#: Requires a letter and a digit: `deadbeef` is a word, `10061001` an error number.
_HEX: Final = re.compile(r"\b(?:0x)?(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}\b")
#: Atomic groups: before Python 3.11.5 a possessive repeat of a group matches differently.
_VERSION: Final = re.compile(r"\b(v?\d+(?>(?:\.\d+){2,}))(?>(?:[-+.]?[0-9a-z]++)*)(?!_)")
_ISSUE_PREFIXES: Final = re.compile(r"^(?:(?:err|warn)#)+")


def normalize_message(message: str) -> str:
    """Return the message without the parts that vary between occurrences of one problem."""
    text = _text("message", message).lower()
    text = _TIMESTAMP.sub("<ts>", text)
    text = _URL_PATH.sub(r"\1<path>", text)
    text = _PATH.sub("<path>", text)
    text = _POSITION.sub("<pos>", text)
    text = _UUID.sub("", text)
    text = _HEX.sub("", text)
    text = _VERSION.sub(_version_mark, text)
    return " ".join(text.split())


def _version_mark(found: re.Match[str]) -> str:
    try:
        ipaddress.IPv4Address(found[1])
    except ValueError:
        return "<ver>"
    return found[0]


def fp8(*, cmd: str, cwd: str, exit_code: int, stdout: str = "", stderr: str = "") -> str:
    """Return a digest of one execution: command, directory, exit code and start of its output."""
    if isinstance(exit_code, bool) or not isinstance(exit_code, int):
        message = f"exit_code: must be an integer, not {exit_code!r:.60}"
        raise InvalidArgument(message, fix="pass the process's exit code", field="exit_code")
    parts = [
        _text("cmd", cmd).encode(),
        _text("cwd", cwd).encode(),
        b"%d" % exit_code,
        _head("stdout", stdout),
        _head("stderr", stderr),
    ]
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:8]


def _head(field: str, output: str) -> bytes:
    """Return the first 8 KiB, cut between characters."""
    encoded = _text(field, output).encode()[:HEAD_BYTES_MAX]
    return encoded.decode(errors="ignore").encode()


def sha8(value: object) -> str:
    """Return a digest of eight hexadecimal digits for a JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:8]


def canonical_command(cmd: str) -> str:
    """Return the command with white space collapsed, at most 120 characters, for grouping."""
    return " ".join(_text("cmd", cmd).split())[:COMMAND_CHARACTERS_MAX].rstrip()


def run_key(started_at: str, fingerprint: str) -> str:
    """Return `run#<start>#<fp8>`; `started_at` is recorded once, when the run starts."""
    try:
        datetime.fromisoformat(_name("started_at", started_at))
    except ValueError as exc:
        message = f"started_at: {started_at!r:.60} is not an ISO 8601 time; no key was made"
        fix = "pass a time such as 2026-02-06T12:00:00Z"
        raise InvalidArgument(message, fix=fix, field="started_at") from exc
    return f"run#{started_at}#{_name('fingerprint', fingerprint)}"


def command_key(cmd: str, fingerprint: str) -> str:
    """Return `cmd#<canonical command>#<fp8>`."""
    return f"cmd#{canonical_command(cmd)}#{_name('fingerprint', fingerprint)}"


def error_key(message: str) -> str:
    """Return `err#<normalised message>`."""
    return "err#" + _issue(message)


def warning_key(message: str) -> str:
    """Return `warn#<normalised message>`, never `err#warn#…`."""
    return "warn#" + _issue(message)


def _issue(message: str) -> str:
    normalized = _ISSUE_PREFIXES.sub("", normalize_message(message))
    if not normalized:
        problem = f"message: without times, paths and hashes, {message!r:.60} is empty"
        raise InvalidArgument(problem, fix="pass the text of the problem", field="message")
    return normalized


def dependency_key(name: str, version: str | None = None) -> str:
    """Return `dep#<name>@<version>`, without the `@` where there is no version."""
    return canonical_name(_versioned("dep", name, version))


def mode_key(slug: str, version: str | None = None) -> str:
    """Return `mode#<slug>@<version>`."""
    return _versioned("mode", slug, version)


def tool_key(name: str, version: str | None = None) -> str:
    """Return `tool#<name>@<version>`."""
    return _versioned("tool", name, version)


def fix_key(issue: str, *, strategy: object, changes: object) -> str:
    """Return `fix#<issue>#<sha8>` for one strategy with one set of changes."""
    digest = sha8({"strategy": strategy, "changes": changes})
    return f"fix#{_name('issue', issue)}#{digest}"


def doc_key(url: str) -> str:
    """Return `doc#<sha256 of the URL>`."""
    return "doc#" + hashlib.sha256(_name("url", url).encode()).hexdigest()


def file_key(path: str) -> str:
    """Return `file#<path>`, with the canonical path."""
    return canonical_name("file#" + _name("path", path))


def concept_key(slug: str) -> str:
    """Return `concept#<slug>`, with the canonical slug."""
    return canonical_name("concept#" + _name("slug", slug))


def envelope_fingerprint(
    *,
    type: str,  # noqa: A002 - the envelope's own word
    mode: str | None,
    repo: str | None,
    branch: str | None,
    data: object,
) -> str:
    """Return a digest of an observation without its time, to detect duplicates."""
    content = {"type": type, "mode": mode, "repo": repo, "branch": branch, "data": data}
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _versioned(prefix: str, name: str, version: str | None) -> str:
    suffix = f"@{_text('version', version)}" if version else ""
    return f"{prefix}#{_name('name', name)}{suffix}"


def _name(field: str, value: object) -> str:
    """Validate a part of a key that must not be empty."""
    if value == "":
        message = f"{field}: must not be empty"
        raise InvalidArgument(message, fix=f"pass {field} as a non-empty string", field=field)
    return _text(field, value)


def _text(field: str, value: object) -> str:
    """Validate that a part of a key is encodable text."""
    if not isinstance(value, str):
        message = f"{field}: must be text, not {value!r:.60}"
        raise InvalidArgument(message, fix=f"pass {field} as a string", field=field)
    return well_formed(field, value)
