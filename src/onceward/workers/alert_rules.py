"""Alert rules: read and validate the alert rules of `onceward.toml`; errors name the field."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from onceward.errors import FileMissing, InvalidArgument
from onceward.errors.arguments import reject_field
from onceward.stores.store_urls import home
from onceward.system import mapped_os_errors
from onceward.workers.alert_models import DEFAULT_RULES, KINDS, WINDOWED, AlertRule, Kind

T = TypeVar("T")
FILE_NAME: Final = "onceward.toml"
RULES_MAX: Final = 1_000
TEXT_CHARACTERS_MAX: Final = 200
#: Default of a rule's `window`.
WINDOW_SECONDS: Final = 600.0
SECONDS_MAX: Final = 30 * 24 * 3600.0
_TABLES: Final = ("alerts", "alerts_defaults", "keep")
FIELDS: Final = ("name", "kind", "cursor", "threshold", "for", "clear", "window", "webhook")
DEFAULT_FIELDS: Final = ("enabled", "webhook")


def find_config(path: str | None = None) -> Path | None:
    """Return the configuration file: `path`, else in the working directory, else in the home."""
    if path is not None:
        found = Path(path).expanduser()
        if not found.is_file():
            message = f"the configuration file {found} does not exist, or is not a file"
            raise FileMissing(
                message, fix="name an existing file, or omit --config for the default places"
            )
        return found
    places = (Path(FILE_NAME), home() / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def read_rules(path: str | None = None) -> tuple[AlertRule, ...]:
    """Return the rules of the configuration file, and the default rules unless it disables them."""
    return read_config(parse_rules, path)


def read_config(parse: Callable[[Mapping[str, Any]], T], path: str | None = None) -> T:
    """Parse the configuration file, or an empty one without a file; errors name file and field."""
    found = find_config(path)
    if found is None:
        return parse({})
    with mapped_os_errors(found, "read"):
        raw = found.read_bytes()
    try:
        return parse(tomllib.loads(raw.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        message = f"{found} is not valid TOML: {exc}"
        raise InvalidArgument(message, fix="correct the file there; TOML is UTF-8") from exc
    except InvalidArgument as exc:
        message = f"{found}: {exc.message}"
        raise InvalidArgument(message, fix=exc.fix, field=exc.context["field"]) from exc


def parse_rules(config: Mapping[str, Any]) -> tuple[AlertRule, ...]:
    """Return the rules of a parsed configuration, default rules included."""
    check_names("", config, _TABLES)
    defaults, entries = config.get("alerts_defaults", {}), config.get("alerts", [])
    if not isinstance(defaults, dict):
        reject_field("alerts_defaults", "must be a table", "write [alerts_defaults]")
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        reject_field("alerts", "must be a list of tables", "write [[alerts]] above each rule")
    if len(entries) > RULES_MAX:
        problem = f"has {len(entries)} rules; the limit is {RULES_MAX}"
        reject_field("alerts", problem, "use patterns of cursor names, such as orders_*")
    check_names("alerts_defaults.", defaults, DEFAULT_FIELDS)
    is_enabled = defaults.get("enabled", True)
    if not isinstance(is_enabled, bool):
        reject_field("alerts_defaults.enabled", "must be true or false", "write enabled = false")
    webhook = _webhook("alerts_defaults.webhook", defaults.get("webhook"))
    rules = [replace(rule, webhook=webhook) for rule in DEFAULT_RULES if is_enabled]
    for number, entry in enumerate(entries):
        rule = _rule(f"alerts[{number}].", entry, webhook)
        if any(rule.name == each.name for each in rules):
            problem = f"there is another rule named {rule.name!r}"
            reject_field(f"alerts[{number}].name", problem, "give each rule a unique name")
        rules.append(rule)
    return tuple(rules)


def _rule(field: str, entry: dict[str, Any], webhook: str | None) -> AlertRule:
    check_names(field, entry, FIELDS)
    kind: Kind = entry.get("kind", "")
    if kind not in KINDS:
        problem = f"must be one of {', '.join(KINDS)}"
        reject_field(f"{field}kind", problem, 'write one of them, such as kind = "lag"')
    cursor = _text(f"{field}cursor", entry.get("cursor", "*"))
    threshold = number(f"{field}threshold", entry.get("threshold"))
    clear = number(f"{field}clear", entry.get("clear", _default_clear(kind, threshold)))
    if clear > threshold:
        problem = "must not be above the threshold: the alert would clear while it fires"
        reject_field(f"{field}clear", problem, f"write clear = {threshold:g}, or less")
    if "window" in entry and kind not in WINDOWED:
        problem = f"is only for {' and '.join(WINDOWED)}, which count recent events"
        reject_field(f"{field}window", problem, "omit it")
    window = number(f"{field}window", entry.get("window", WINDOW_SECONDS), SECONDS_MAX)
    return AlertRule(
        name=_text(f"{field}name", entry.get("name", f"{kind} {cursor}")),
        kind=kind,
        cursor=cursor,
        threshold=threshold,
        for_seconds=number(f"{field}for", entry.get("for", 0), SECONDS_MAX),
        clear=clear,
        window_seconds=window if kind in WINDOWED else 0.0,
        webhook=_webhook(f"{field}webhook", entry.get("webhook")) or webhook,
    )


def _default_clear(kind: Kind, threshold: float) -> float:
    """Return the default of `clear`: half the threshold for lag, else 0."""
    return threshold / 2 if kind == "lag" else 0.0


def number(field: str, value: Any, most: float = math.inf) -> float:  # noqa: ANN401 - any TOML value
    """Return a number that is not negative and not above `most`."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and 0 <= value <= most):
        limits = "0 or more" if most == math.inf else f"from 0 to {most:.0f}"
        name = field.rpartition(".")[2]
        problem = f"must be a number, {limits}, not {value!r:.60}"
        if value is None:
            problem = f"is missing; it must be a number, {limits}"
        reject_field(field, problem, f"write a number such as {name} = 300, without quotes")
    return float(value)


def _text(field: str, value: Any) -> str:  # noqa: ANN401 - the same
    is_text = isinstance(value, str) and value.isprintable()
    if not (is_text and 0 < len(value) <= TEXT_CHARACTERS_MAX):
        name = field.rpartition(".")[2]
        problem = f"must be text of 1 to {TEXT_CHARACTERS_MAX} characters"
        reject_field(field, problem, f'write {name} = "…"')
    return str(value)


def _webhook(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not (isinstance(value, str) and _is_address(value)):
        # The error does not show the value, which may hold a secret.
        reject_field(field, "must be an http:// or https:// address", 'write webhook = "https://…"')
    return str(value)


def _is_address(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # An invalid port.
        return False


def check_names(field: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Reject unknown field names."""
    for name in table:
        if name not in allowed:
            problem = f"is unknown; the known names are {', '.join(allowed)}"
            reject_field(f"{field}{name}", problem, "correct its name, or omit it")
