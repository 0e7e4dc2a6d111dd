"""Secrets: nothing that must stay secret is left in a text or a JSON value."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.system.redaction import REDACTED, Redactor

TOKEN = "ghz-5f1c9e-Zz"
KEY_BLOCK = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC\nAQEAxyz0123\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "API_KEY", "CLIENT_SECRET", "DB_PASSWORD", "api_key", "PGPASSWORD", "DB_PASS"],
)
def test_h32_values_of_secret_variables_are_redacted(name: str) -> None:
    """The value of a variable with such a name stands in no text, whatever is around it."""
    redactor = Redactor.from_environment({name: TOKEN, "HOME": "/root/home"})
    assert redactor.text(f"x{TOKEN}y at /root/home") == f"x{REDACTED}y at /root/home"


def test_other_variables_are_no_secrets() -> None:
    """A name that merely holds such a word, and a value of a few characters, are left alone."""
    redactor = Redactor.from_environment({"KEYBOARD": "qwertz-layout", "A_KEY": "short"})
    assert redactor.text("qwertz-layout short") == "qwertz-layout short"


@pytest.mark.parametrize(
    "value", ['quo"te\\back', "erste-zeile\nzweite-zeile", "grüße-aus", "a/b c?d=e", "\ud800secret"]
)
def test_h32_secrets_are_found_however_they_are_written(value: str) -> None:
    """Whole, in JSON with and without escapes, in an address, and line by line."""
    redactor = Redactor([value])
    texts = [value, json.dumps(value)[1:-1], *value.split("\n")]
    for text in texts:
        assert redactor.text(f"<{text}>") == f"<{REDACTED}>"
    address = Redactor(["a/b c?d=e"]).text("https://host/?t=a%2Fb%20c%3Fd%3De")
    assert address == f"https://host/?t={REDACTED}"


def test_the_longest_secret_wins() -> None:
    """A secret that begins like another is redacted whole."""
    redactor = Redactor(["abcdef", "abcdefghij"])
    assert redactor.text("abcdefghij") == REDACTED


def test_h32_well_known_forms_are_redacted() -> None:
    """What looks like a secret is one, also when no variable holds it."""
    cases: list[Any] = [
        ("export NPM_TOKEN=abc123", "export NPM_TOKEN=[redacted]"),
        ("MY_KEY: 'two words' next", "MY_KEY: [redacted] next"),
        ('{"DB_PASSWORD": "two words", "n": 1}', '{"DB_PASSWORD": [redacted], "n": 1}'),
        ("api_key=abc123&x=1", "api_key=[redacted]"),
        ('{"password": "a \\" quote", "n": 1}', '{"password": [redacted], "n": 1}'),
        ('"{\\"password\\": \\"abc\\"}"', '"{\\"password\\": [redacted]}"'),
        ("token=abc123 n=1", "token=[redacted] n=1"),
        ("secret: 'two words' n", "secret: [redacted] n"),
        ('{"token": "abc", "n": 1}', '{"token": [redacted], "n": 1}'),
        ('{"password": ["abc", "d"], "n": 1}', '{"password": [redacted], "n": 1}'),
        ('{"api_key": {"value": "abc"}, "n": 1}', '{"api_key": [redacted], "n": 1}'),
        (
            "curl --token=abc123 --api-key=abc url",
            "curl --token=[redacted] --api-key=[redacted] url",
        ),
        ("DB_PASSWORD=[a]b{c n=1", "DB_PASSWORD=[redacted] n=1"),
        ("https://host/?token=abc123", "https://host/?token=[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("authorization: basic dXNlcjpw", "authorization: basic [redacted]"),
        ("-H 'Authorization: Bearer abc.def' url", "-H 'Authorization: Bearer [redacted]' url"),
        ("sent Bearer abcdefghijklmnop123==", "sent Bearer [redacted]"),
        ("sk-abcdefghijklmnop0123", "[redacted]"),
        ("ghp_abcdefghijklmnop0123", "[redacted]"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("postgresql://me:hunter2@host/db", "postgresql://me:[redacted]@host/db"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[redacted]"),
        ("tool --token abc123 --x 1", "tool --token [redacted] --x 1"),
        ("mysql --password hunter", "mysql --password [redacted]"),
        ("tool -password 'two words' n", "tool -password [redacted] n"),
        ('tool --api-key "two \\" words" n', "tool --api-key [redacted] n"),
        ("gh --github-token=abc --n 1", "gh --github-token=[redacted] --n 1"),
        ("tool --passphrase 'it'\"'\"'s a' n", "tool --passphrase [redacted] n"),
        ("['tool', '--token', 'two words', 'n']", "['tool', '--token', '[redacted]', 'n']"),
        ("curl -u bob:hunter2 http://x", "curl -u bob:[redacted] http://x"),
        ("curl -s --user=bob:hunter2 http://x", "curl -s --user=bob:[redacted] http://x"),
        ("curl \\\n -ubob:hunter2 http://x", "curl \\\n -ubob:[redacted] http://x"),
        ("http -a bob:hunter2 x.org", "http -a bob:[redacted] x.org"),
        ("https://tok123456789@host/x", "https://[redacted]@host/x"),
        ("https://abcdefghijklmnopqrstu@host", "https://[redacted]@host"),
        ("apiKey=abc123, n=1", "apiKey=[redacted], n=1"),
        ('{"accessToken": "abc", "n": 1}', '{"accessToken": [redacted], "n": 1}'),
        ("X-Api-Key: abc123", "X-Api-Key: [redacted]"),
        ("Password: hunter2", "Password: [redacted]"),
        ("dbPassword=hunter2 n", "dbPassword=[redacted] n"),
        ("DB_PASS=hunter2 n", "DB_PASS=[redacted] n"),
        ("X_TOKEN=      abc123 n", "X_TOKEN=      [redacted] n"),
        (f"before {KEY_BLOCK} after", "before [redacted] after"),
        (KEY_BLOCK[:40], "[redacted]"),
    ]
    for text, left in cases:
        assert Redactor().text(text) == left
        assert Redactor().text(left) == left


def test_ordinary_text_stays() -> None:
    """Keys of commands, checksums and plain words are not taken for secrets."""
    cases: list[Any] = [
        "--token-count 5 --max-token 7 --tokens 9",
        "the option --token is missing, --password requires a value",
        "give --token to the tool, or --secret instead",
        "usage: tool [--token] [--password]",
        "password reset for Ann, passwords: none",
        "docker run -u app:app image",
        "curl -u bob http://x -a https://y",
        "https://user@host/x, ssh://git12345678@host, https://host/a:b@2",
        "3 passed, 1 bypass: ok, compass=north",
        "idempotency_key=ik:b8fcdfb6c6cc98ee",
        "the bearer of good news",
        "task-abcdefghijklmnopqrstu",
        "https://host:8080/path@2",
        "sha256: 2d711642b726b04401627ca9fbac32f5",
        "sort_key: name",
        "tokens: 1200",
        "max_tokens=1200, max_token=1",
        "token_count: 7",
        "secret_santa=Kim",
        "secrets: none, nontoken=1",
        "the token is new, the secret too",
        "KEY_MISMATCH: the key of this work is another",
        "",
    ]
    for text in cases:
        assert Redactor().text(text) == text


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["tool", "--token", "two words", "n"], ["tool", "--token", REDACTED, "n"]),
        (["tool", "--password=two words"], ["tool", f"--password={REDACTED}"]),
        (["env", "X_TOKEN=it's it", "tool"], ["env", f"X_TOKEN={REDACTED}", "tool"]),
        (["tool", "--token", "--verbose", "n"], ["tool", "--token", "--verbose", "n"]),
        (["tool", "--token", "is"], ["tool", "--token", REDACTED]),
        (["/bin/curl", "-u", "bob:a b", "x"], ["/bin/curl", "-u", f"bob:{REDACTED}", "x"]),
        (["docker", "-u", "app:app"], ["docker", "-u", "app:app"]),
        (["tool", f"it's {TOKEN}", "--token-count", "5"], ["tool", f"it's {REDACTED}",
                                                          "--token-count", "5"]),
        (["tool", "--token"], ["tool", "--token"]),
        ([], []),
    ],
)  # fmt: skip
def test_h32_words_of_a_command_are_known_by_the_flag_before_them(
    words: list[str], left: list[str]
) -> None:
    """Whatever is in the word after `--token`, spaces and quotes too, nothing of it is left."""
    assert Redactor([TOKEN]).words(words) == left


def test_h32_json_values_are_redacted_at_every_depth() -> None:
    """Texts in lists and objects, names of fields, and whatever stands under a telling name."""
    redactor = Redactor([TOKEN])
    value = {
        "a": [TOKEN, {"b": f"x {TOKEN}"}],
        TOKEN: 1,
        "API_KEY": "abc",
        "password": "abc",
        "idempotency_key": "ik:1",
        "n": [1, 1.5, True, None],
    }
    assert redactor.value(value) == {
        "a": [REDACTED, {"b": f"x {REDACTED}"}],
        REDACTED: 1,
        "API_KEY": REDACTED,
        "password": REDACTED,
        "idempotency_key": "ik:1",
        "n": [1, 1.5, True, None],
    }


def test_h32_nothing_is_left_under_a_telling_name() -> None:
    """Lists, objects and numbers can hold a secret as well as a text."""
    for name in ["password", "api_key", "access_token", "token", "secret", "DB_KEY", "apiKey"]:
        for value in ["x", ["x"], {"value": "x"}, 99887766, 1.5, True, [[]]]:
            assert Redactor().value({"a": [{name: value}]}) == {"a": [{name: REDACTED}]}


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_no_secret(value: object) -> None:
    """It can be seen that there was no password."""
    assert Redactor().value({"password": value}) == {"password": value}


@pytest.mark.parametrize(
    "name", ["tokens", "max_tokens", "token_count", "secret_santa", "idempotency_key", "key"]
)
def test_names_that_indicate_no_secret_hide_nothing(name: str) -> None:
    """Counts of tokens and keys of commands are ordinary values."""
    assert Redactor().value({name: 1200}) == {name: 1200}


@pytest.mark.parametrize(
    ("secret", "number"),
    [
        ("12345678", 12345678),
        ("12345678", 12345678.0),
        ("0123456", 123456),
        ("-1234.5", -1234.5),
        ("12345678901234567890", 12345678901234567890),
        ("12345678901234567890", float("12345678901234567890")),
    ],
)
def test_h32_a_secret_may_stand_as_a_number(secret: str, number: float) -> None:
    """A secret of digits is found where JSON writes it without quotes."""
    assert Redactor([secret]).value({"n": [number]}) == {"n": [REDACTED]}


def test_other_numbers_stay() -> None:
    """Neither short numbers nor others are taken for a secret of digits."""
    redactor = Redactor(["000000", "000001", "12345678", "inf", "1e999", "9" * 5000, "1_000_000"])
    numbers = [0, 1, 0.0, True, False, 123456789, 1000000, 1.5, None]
    assert redactor.value(numbers) == numbers


def test_h32_a_private_key_is_redacted_line_by_line() -> None:
    """A key that comes in lines leaves none of them, and the lines around it stay."""
    lines = Redactor().lines()
    sent = ["before", *KEY_BLOCK.split("\n"), "after", f"one line {KEY_BLOCK}", "last"]
    shown = [lines.line(line) for line in sent]
    assert shown[0] == "before"
    assert not any("MII" in line or "AQEA" in line for line in shown)
    assert shown[5:] == ["after", f"one line {REDACTED}", "last"]


@given(st.text(max_size=300), st.text(min_size=6, max_size=20).filter(lambda text: text.strip()))
def test_h32_no_text_hides_a_secret(around: str, secret: str) -> None:
    """Wherever a secret stands, it is gone afterwards."""
    if len(secret.strip()) >= 6 and secret.strip() not in REDACTED and REDACTED not in secret:
        redacted = Redactor([secret]).text(around + secret + around)
        assert secret not in redacted.replace(REDACTED, "\0")


@pytest.mark.parametrize(
    "piece",
    [
        "A_",
        "a_",
        "sk-",
        "eyJa",
        "eyJ-",
        "://a:",
        "Bearer ",
        "-----BEGIN ",
        "_KEY=",
        "token={",
        " --token",
        " --token x",
        "--a-",
        "curl -u a",
        "http -a a:",
        "https://a1",
        "password",
        "'--token', '",
        "api-",
        "x",
        "=",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    """A text as long as a line, made to be hard to search, is done in no time."""
    text = piece * (256 * 1024 // len(piece))
    began = time.process_time()
    Redactor([TOKEN]).text(text)
    assert time.process_time() - began < 10
