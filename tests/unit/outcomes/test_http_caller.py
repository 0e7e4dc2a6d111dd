"""Callers: equal credentials have equal digests, other credentials never do."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onceward.outcomes.claims import NAME_CHARS_MAX
from onceward.outcomes.http_caller import CREDENTIAL_HEADERS, Callers, caller_scope
from onceward.outcomes.request_fingerprint import is_other_caller, with_caller

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "idempotent-http.md"
#: Values with everything that separates one credential from the next.
VALUES = st.lists(
    st.tuples(
        st.sampled_from(["authorization", "x-api-key", "Api-Key", "x-other"]),
        st.binary(max_size=3) | st.sampled_from([b"a", b"a,b", b"1:a", b"cookie a"]),
    ),
    max_size=3,
)
COOKIES = st.lists(st.sampled_from(["a=1", "a=2", "b=1", "a=", "a", "=1", "a=1=1"]), max_size=4)
#: Texts in which the parts of a name or fingerprint could be confused.
TEXTS = st.lists(
    st.sampled_from([" caller=", " as ", "*", "a", "b", " ", ":", "%", "ä", "\0", "\ud800"]),
    max_size=5,
).map("".join)


def digest(*headers: tuple[str, bytes | str], **options: Any) -> str:
    pairs = [
        (name.encode(), each if isinstance(each, bytes) else each.encode())
        for name, each in headers
    ]
    callers = Callers(None, **{"headers": (), "cookies": None, **options})
    return callers.digest({"headers": pairs})


@given(VALUES, COOKIES, st.randoms())
def test_order_does_not_count(values: Any, cookies: list[str], random: Any) -> None:
    """Shuffled headers and cookies, in one header or in several, have the same digest."""
    first = digest(*values, ("cookie", "; ".join(cookies)))
    shuffled = [(name.upper(), value) for name, value in values]
    shuffled += [("Cookie", f" {each} ; ") for each in cookies]
    random.shuffle(shuffled)
    assert digest(*shuffled) == first


@given(VALUES, VALUES)
def test_other_credentials_have_other_digests(one: Any, other: Any) -> None:
    """Two requests are one caller only if all their credentials are equal."""

    def counted(values: Any) -> list[tuple[str, bytes]]:
        stripped = [(name.lower(), value.strip()) for name, value in values]
        return sorted(each for each in stripped if each[1] and each[0] != "x-other")

    assume(counted(one) != counted(other))
    assert digest(*one) != digest(*other)


@pytest.mark.parametrize(
    "headers",
    [[], [("authorization", "")], [("Authorization", " \t")], [("cookie", " ; ;")], [("x", "1")]],
)
def test_no_credentials_are_anonymous(headers: list[tuple[str, str]]) -> None:
    """Headers that are absent, empty or of another kind make no caller."""
    assert digest(*headers) == ""


def test_a_cookie_that_is_not_named_does_not_count() -> None:
    """Names are compared as they are; a value may contain an equals sign."""
    named = {"cookies": ["session"]}
    assert digest(("cookie", "session=a=b; x=1"), **named) == digest(
        ("cookie", "y=2"), ("cookie", "session=a=b"), **named
    )
    assert digest(("cookie", "Session=a; session"), **named) == digest(
        ("cookie", "session="), **named
    )
    assert digest(("cookie", "x=1"), **named) == ""


def test_a_cookie_is_no_header_and_no_other_cookie() -> None:
    """The same text in another place is another credential."""
    places = [("cookie", b"x-api-key=1"), ("x-api-key", b"1"), ("cookie", b"1"), ("cookie", b"a=1")]
    places += [("authorization", b"\xff"), ("authorization", b"\xc3\xbf")]
    assert len({digest(place) for place in places}) == len(places)


@given(TEXTS, TEXTS, st.none() | TEXTS, st.none() | TEXTS)
def test_names_of_scopes_and_principals_are_distinct(
    scope: str, other_scope: str, principal: str | None, other: str | None
) -> None:
    """No two pairs of scope and principal have the same name; an empty principal is none."""
    assume((scope, principal or None) != (other_scope, other or None))
    assert caller_scope(scope, principal) != caller_scope(other_scope, other)


@given(st.text(min_size=1))
def test_any_principal_can_be_stored(principal: str) -> None:
    """Its name is short ASCII without control characters."""
    for each in (principal, principal * 400):
        name = caller_scope("x" * (NAME_CHARS_MAX // 2), each)
        assert len(name) <= NAME_CHARS_MAX
        assert name.isascii()
        assert name.isprintable()


@given(TEXTS, TEXTS, st.sampled_from(["", "c1", "c2"]), st.sampled_from(["", "c1", "c2"]))
def test_payload_and_caller_are_compared_apart(
    payload: str, other_payload: str, caller: str, other: str
) -> None:
    """Fingerprints are equal only if both parts are, and tell whether the callers differ."""
    one, two = with_caller(payload, caller), with_caller(other_payload, other)
    assert (one == two) == ((payload, caller) == (other_payload, other))
    assert is_other_caller(one, two) == (caller != other)


def test_a_worker_has_the_fingerprint_of_an_anonymous_request() -> None:
    """Without a payload and a caller nothing is left to compare."""
    assert with_caller("", "") == ""


def test_the_page_lists_every_header_that_is_compared() -> None:
    """A reader finds the whole list in the documentation."""
    listed = PAGE.read_text(encoding="utf-8").partition("## Headers that are compared")[2]
    assert [name for name in CREDENTIAL_HEADERS if f"`{name}`" not in listed] == []
