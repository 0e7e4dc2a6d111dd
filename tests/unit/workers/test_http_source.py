"""HTTP sources: page by page, resumed inside a page, patient with a service that is away."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest

from onceward.errors import InvalidArgument, InvalidCursor, SourceRefused, SourceUnavailable
from onceward.retries import FixedDelays
from onceward.system import ManualClock, SeededRandomness
from onceward.workers.sources import HttpSource, http_pages
from tests.support.paged_http_service import Answer, Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service(*({"id": number} for number in range(1, 8)))) as service:
        yield service


def source(service: Service, **options: Any) -> HttpSource:
    clock = ManualClock()
    return HttpSource(service.url, clock=clock, randomness=SeededRandomness(1), **options)


def ids(found: HttpSource, after: str | None = None, limit: int = 100) -> list[int]:
    return [orjson.loads(item.raw)["id"] for item in found.read(after, limit)]


@pytest.mark.parametrize("has_last_cursor", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_every_entry_comes_once_whatever_the_limit(
    service: Service, limit: int, has_last_cursor: bool
) -> None:
    """Pages of the service and pages of the reader need not fit, and each position resumes."""
    service.has_last_cursor = has_last_cursor
    after, seen, positions = None, [], []
    while items := source(service).read(after, limit):
        assert len(items) <= limit
        seen += [orjson.loads(item.raw)["id"] for item in items]
        positions += [item.position for item in items]
        after = items[-1].position
    assert seen == list(range(1, 8))
    assert len(set(positions)) == 7
    for number, position in enumerate(positions, 1):
        assert ids(source(service), position) == list(range(number + 1, 8))


@pytest.mark.parametrize("has_last_cursor", [True, False])
def test_new_entries_come_after_the_old_ones(service: Service, has_last_cursor: bool) -> None:
    """A last page that grows is read on."""
    service.has_last_cursor = has_last_cursor
    after = source(service).read(None, 100)[-1].position
    assert ids(source(service), after) == []
    service.entries += [{"id": 8}, {"id": 9}, {"id": 10}]
    assert ids(source(service), after) == [8, 9, 10]


def test_a_crash_inside_a_page_resumes_inside_it(service: Service) -> None:
    """The second of three is done: the third is next, from the same page."""
    after = source(service).read(None, 2)[-1].position
    service.asked.clear()
    assert ids(source(service), after, 1) == [3]
    assert service.asked == [{}]


def test_a_page_is_asked_for_once_however_little_is_read_of_it(service: Service) -> None:
    """In a process that lives on: three pages, and one more look at the end."""
    found = source(service)
    after, seen = None, []
    while items := found.read(after, 1):
        seen += [orjson.loads(item.raw)["id"] for item in items]
        after = items[-1].position
    assert seen == list(range(1, 8))
    assert [query.get("cursor") for query in service.asked] == [None, "3", "6", "7"]


def test_a_page_that_lost_an_entry_loses_no_other(service: Service) -> None:
    """Entries have moved up in the page; reading goes on after the one that was last."""
    after = source(service).read(None, 2)[-1].position
    del service.entries[0]
    assert ids(source(service), after) == [3, 4, 5, 6, 7]


def test_a_page_without_the_last_entry_is_read_again(service: Service) -> None:
    """Its place is unknown: a repeat can be recognised, a loss cannot."""
    after = source(service).read(None, 2)[-1].position
    del service.entries[1]
    assert ids(source(service), after) == [1, 3, 4, 5, 6, 7]
    service.entries.clear()
    assert ids(source(service), after) == []


def test_an_entry_that_changed_is_recognised_by_its_id(service: Service) -> None:
    """What an entry says may change; who it is does not. Without an id all of it counts."""
    after = source(service).read(None, 2)[-1].position
    service.entries[1] = {"id": 2, "views": 10}
    assert ids(source(service), after, 1) == [3]
    after = source(service, id_field="uid").read(None, 2)[-1].position
    service.entries[1] = {"id": 2, "views": 11}
    assert ids(source(service, id_field="uid"), after, 1) == [1]


def test_empty_pages_are_passed_and_remembered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long way with nothing in it is walked in parts, each only once."""
    monkeypatch.setattr("onceward.workers.sources.http.PAGES_MAX", 10)

    def sparse(cursor: str | None) -> dict[str, Any]:
        number = int(cursor or 0)
        return {"items": [{"id": 25}] if number == 25 else [], "nextCursor": min(number + 1, 26)}

    service.page = sparse
    found = source(service)
    assert [ids(found), ids(found), ids(found)] == [[], [], [25]]
    assert len(service.asked) == 27


@pytest.mark.parametrize("following", [None, "", "0", 0, [], {}, True])
def test_a_page_that_names_no_other_is_the_last(service: Service, following: Any) -> None:
    """Nothing, or itself, is no next page; reading ends."""
    service.page = lambda _: {"items": [{"id": 1}], "nextCursor": following}
    after = "0@0"
    assert ids(source(service), after) == [1]


def test_names_token_and_parameters_are_configurable(service: Service) -> None:
    """Any service with cursors will do."""
    service.page = lambda _: {"data": [{"id": 1}], "next": None}
    found = HttpSource(
        service.url + "?kind=a",
        token="secret",
        params={"limit": "50"},
        headers={"X-Team": "red"},
        cursor_param="since",
        items_field="data",
        next_field="next",
    )
    assert ids(found) == [1]
    assert ids(found, "0@k&y") == [1]
    assert service.asked == [
        {"kind": "a", "limit": "50"},
        {"kind": "a", "limit": "50", "since": "k&y"},
    ]
    assert service.headers[0]["Authorization"] == "Bearer secret"
    assert service.headers[0]["X-Team"] == "red"


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_service_that_is_away_is_asked_three_times(service: Service, status: int) -> None:
    """Two failures pass unnoticed, a third is the caller's."""
    service.next_answers.extend([Answer(status)] * 2)
    assert ids(source(service)) == list(range(1, 8))
    service.next_answers.extend([Answer(status)] * 3)
    with pytest.raises(SourceUnavailable, match=f"answered {status}") as caught:
        source(service).read(None, 10)
    assert caught.value.retryable
    assert caught.value.status == status


def test_a_pause_that_is_asked_for_is_kept(service: Service) -> None:
    """Retry-After counts in seconds; one that asks for too long is not waited for."""
    clock = ManualClock()
    service.next_answers.append(Answer(503, headers={"Retry-After": "7"}))
    assert HttpSource(service.url, clock=clock).read(None, 1)
    assert 7 <= clock.monotonic() < 8
    service.next_answers.append(Answer(503, headers={"Retry-After": "3600"}))
    with pytest.raises(SourceUnavailable) as caught:
        HttpSource(service.url, clock=clock).read(None, 1)
    assert caught.value.retry_after == "3600"
    assert clock.monotonic() < 8


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, SourceRefused), (401, SourceRefused), (404, SourceRefused), (429, SourceUnavailable)],
)
def test_what_the_service_refuses_is_not_asked_again(
    service: Service, status: int, kind: type[Exception]
) -> None:
    """A 4xx is the caller's at once; one that passes says so."""
    service.next_answers.append(Answer(status))
    with pytest.raises(kind, match=f"answered {status}"):
        source(service).read(None, 10)
    assert len(service.asked) == 1


def test_a_redirect_is_not_followed(service: Service) -> None:
    """The token goes where it was meant to go, and nowhere else."""
    moved = "http://user:secret@elsewhere.test/page?signature=secret"
    service.next_answers.append(Answer(302, headers={"Location": moved}))
    with pytest.raises(SourceRefused) as caught:
        source(service, token="secret").read(None, 10)
    assert "http://elsewhere.test/page" in caught.value.fix
    assert "secret" not in str(caught.value.to_dict())
    assert len(service.asked) == 1


def test_an_answer_that_ends_early_is_asked_for_again(service: Service) -> None:
    """A body that was cut is no page."""
    body = b'{"items": [], "nextCursor": null}'
    service.next_answers.append(Answer(200, body, cut=10))
    assert ids(source(service)) == list(range(1, 8))


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"entries": []}', b'{"items": {}}'])
def test_an_answer_that_is_no_page_is_refused(service: Service, body: bytes) -> None:
    """A wrong address or a wrong name of a field is reported, and nothing is passed over."""
    service.next_answers.append(Answer(200, body))
    with pytest.raises(SourceRefused) as caught:
        source(service).read(None, 10)
    assert caught.value.fix


def test_a_page_that_is_too_large_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would not fit into memory is not read."""
    monkeypatch.setattr(http_pages, "PAGE_BYTES_MAX", 100)
    service.entries = ["x" * 200]
    with pytest.raises(SourceRefused, match="more than 100 bytes"):
        source(service).read(None, 10)


def test_a_closed_port_is_unavailable() -> None:
    """A closed port is a transient error."""
    found = HttpSource("http://127.0.0.1:1/", clock=ManualClock())
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        found.read(None, 1)


@pytest.mark.parametrize(
    "entry",
    [12345678901234567890123, "half \ud800 of a pair", "ünï", None, [1, {"a": 1.5}], {"a": "\0"}],
)
def test_any_json_arrives_as_it_was(service: Service, entry: Any) -> None:
    """Large numbers, odd strings and bare values are entries as well."""
    import json

    service.entries = [entry]
    (item,) = source(service).read(None, 10)
    assert json.loads(item.raw) == entry


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "file:///etc/passwd",
        "host/x",
        "http://u:p@host",
        "http://:p@host/x",
        "http://a:b/",
    ],
)
def test_an_address_is_http_without_a_user(url: str) -> None:
    """Any other address is rejected, without repeating what may be a password."""
    with pytest.raises(InvalidArgument, match="^url: ") as caught:
        HttpSource(url)
    assert url not in str(caught.value.to_dict())


@pytest.mark.parametrize("position", ["", "7", "x@y", "0.0123456789abcdef@c", "-1@c", "1.zz@c"])
def test_a_position_of_another_source_is_refused(service: Service, position: str) -> None:
    """A text that is not a position is rejected, and the service is not asked."""
    with pytest.raises(InvalidCursor):
        source(service).read(position, 1)
    assert service.asked == []


@pytest.mark.parametrize("part", ["head", "body", "endless"])
def test_a_service_that_trickles_is_cut_off(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never silent for long, and would keep its reader for ever."""
    # Silent for so long it is on no machine, however busy; a whole page may take 2 s.
    silence_seconds = 60.0
    monkeypatch.setattr(http_pages, "TIMEOUTS_PER_PAGE", 2.0 / silence_seconds)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer, suppress(OSError):
                peer.recv(4096)
                if part != "head":
                    length = "" if part == "endless" else "Content-Length: 100000\r\n"
                    peer.sendall(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode())
                while True:
                    peer.sendall(b"H")
                    time.sleep(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        found = HttpSource(url, timeout_seconds=silence_seconds, retry=FixedDelays(seconds=()))
        with pytest.raises(SourceUnavailable, match="longer than 2"):
            found.read(None, 10)
        thread.join(60)
