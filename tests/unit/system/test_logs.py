"""Logs: one line for whatever happened, without a secret in it."""

import logging
import sys

import orjson
import pytest

from onceward.system.logs import TRACE_CHARACTERS_MAX, JsonLogFormatter, PlainLogFormatter, redacted

HIDDEN = "hunter2x"


@pytest.mark.parametrize(
    "text",
    [
        f"STRIPE_API_KEY={HIDDEN}",
        f"access_token={HIDDEN}&more=1",
        f"client_secret={HIDDEN}",
        f"DB_PASSWORD={HIDDEN} HOST=a",
        f'{{"password": "{HIDDEN}", "user": "a"}}',
        f'{{"password": "quote \\" {HIDDEN}"}}',
        f"{{'api_key': '{HIDDEN}'}}",
        f'"{{\\"dbPassword\\": \\"{HIDDEN}\\"}}"',
        f"X-Api-Key: {HIDDEN}",
        f"x-access-token: {HIDDEN}",
        f"Authorization: Basic {HIDDEN}==",
        f"Authorization: Bearer {HIDDEN}",
        f"'Authorization': 'Bearer {HIDDEN}'",
        f"Set-Cookie: {HIDDEN}; Path=/",
        f"bearer {HIDDEN}",
        f"token {HIDDEN}",
        f"the password is {HIDDEN}",
        f"postgres://u:{HIDDEN}@h/db",
        f"postgres://u:pa/{HIDDEN}@h/db",
        f"postgres://u:p@{HIDDEN}@h/db",
        f"postgres://:{HIDDEN}@h/db",
        f"aws_secret_access_key = {HIDDEN}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{HIDDEN}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_h32_secrets_are_not_written(text: str) -> None:
    """However they are named, quoted and spelled, in a message, a fact or a trace."""
    assert HIDDEN not in redacted(text)
    record = _record(text)
    for form in (JsonLogFormatter(), PlainLogFormatter()):
        line = form.format(record)
        assert HIDDEN not in line
        assert "ValueError" in line


def test_h32_a_secret_of_the_environment_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where nothing around it says what it is."""
    monkeypatch.setenv("SHOP_TOKEN", f"two {HIDDEN} words")
    record = _record(f"sent two {HIDDEN} words to the shop, token two {HIDDEN} words")
    record.facts = {"key": f"shop two {HIDDEN} words"}
    for form in (JsonLogFormatter(), PlainLogFormatter()):
        assert HIDDEN not in form.format(record)


@pytest.mark.parametrize(
    "text", ["lead 7 on leads_all", "https://h:8080/path", "a keyboard, a monkey: 7", "at 12:30"]
)
def test_what_is_no_secret_is_written(text: str) -> None:
    """A log that hides everything tells nothing."""
    assert redacted(text) == text


def test_the_end_of_a_long_trace_is_kept() -> None:
    """There stands the error."""
    record = _record("the reason " + "x" * 2 * TRACE_CHARACTERS_MAX + " at the end")
    trace = orjson.loads(JsonLogFormatter().format(record))["trace"]
    assert len(trace) == TRACE_CHARACTERS_MAX
    assert trace.endswith(" at the end")
    assert PlainLogFormatter().format(record).endswith(" at the end")


@pytest.mark.parametrize("value", ["half \ud800", 2**70, float("inf"), {1}, object()])
def test_no_value_loses_its_line(value: object) -> None:
    """What JSON has no form for is written in another one."""
    record = _record("it failed")
    record.facts = {"cursor": "c", "position": value}
    line = orjson.loads(JsonLogFormatter().format(record))
    assert (line["cursor"], line["level"]) == ("c", "error")
    assert "it failed" in PlainLogFormatter().format(record).encode().decode()


def test_a_long_text_without_an_end_costs_little() -> None:
    """A text that begins like a secret over and over is looked through once."""
    for text in ("token" * 100_000, "a://" * 100_000, 'token="' * 50_000, "\\" * 100_000):
        assert len(redacted(text)) <= 500


def _record(text: str) -> logging.LogRecord:
    try:
        raise ValueError(text)  # noqa: TRY301 - for its trace
    except ValueError:
        return logging.LogRecord("onceward", 40, __file__, 1, "%s", (text,), sys.exc_info())
