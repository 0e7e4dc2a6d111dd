"""Run content over HTTP: ranges, sandboxed documents, and no leaked file descriptors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from onceward.errors import StorageError
from onceward.lab.manifest import content_type
from onceward.lab.run_content import CHUNK_BYTES, CONTENT_POLICY, MARKDOWN_BYTES_MAX
from tests.support.lab_http_client import Site, error_of
from tests.support.labs import make_run

VIDEO = bytes(range(256)) * 4
MARKDOWN = """# Title & more

<script>alert(1)</script> [click](javascript:alert(1)) **bold** ![x](http://evil.test/x.png)
"""
FILES = {
    "notes.md": ("markdown", MARKDOWN.encode()),
    "log.txt": ("text", b"<b>plain</b>\n"),
    "picture.png": ("image", b"\x89PNG"),
    "drawing.svg": ("image", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    "empty.txt": ("text", b""),
}


class Content:
    """A run with a video and files of every kind, behind a server."""

    def __init__(self, directory: Path) -> None:
        self.site = Site(directory)
        self.place = make_run(directory)
        (self.place / "video.mp4").write_bytes(VIDEO)
        declared = []
        for name, (kind, content) in FILES.items():
            (self.place / name).write_bytes(content)
            declared.append({"path": name, "label": name, "kind": kind})
        (self.place / "lab.json").write_text(json.dumps({"files": declared}))
        self.import_again()

    def import_again(self) -> None:
        """Make what is there now the run."""
        self.run_id = self.site.lab.import_run(str(self.place)).run_id
        self.video = f"/api/runs/{self.run_id}/video"

    def artifact(self, name: str) -> str:
        return f"/api/runs/{self.run_id}/artifact/{name}"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return Content(tmp_path_factory.mktemp("content"))


@pytest.fixture
def own(tmp_path: Path) -> Content:
    return Content(tmp_path)


def open_files(under: Path) -> list[str]:
    """Return what this process holds open below a directory."""
    descriptors = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    found = [str(each.readlink()) for each in descriptors if each.is_symlink()]
    return [each for each in found if each.startswith(str(under))]


# --- parts ----------------------------------------------------------------------------------------


def test_the_complete_video_is_sent_with_the_headers_players_need(content: Content) -> None:
    """Length, type, tag, time and the offer of ranges come along."""
    response = content.site.get(content.video)
    assert (response.status_code, response.content) == (200, VIDEO)
    headers = response.headers
    assert headers["content-type"] == "video/mp4"
    assert headers["content-length"] == str(len(VIDEO))
    assert headers["accept-ranges"] == "bytes"
    assert headers["etag"].startswith('"')
    assert headers["last-modified"].endswith("GMT")
    assert headers["content-disposition"] == 'inline; filename="video.mp4"'


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=1000-", 1000, 1023),
        ("bytes=-24", 1000, 1023),
        ("bytes=1000-99999", 1000, 1023),
        ("bytes=-99999", 0, 1023),
        ("bytes=5-6, 900-910", 5, 6),
    ],
)
def test_a_part_is_sent_as_asked(content: Content, asked: str, start: int, end: int) -> None:
    """Closed, open and suffix ranges; of several the first."""
    response = content.site.get(content.video, headers={"range": asked})
    assert (response.status_code, response.content) == (206, VIDEO[start : end + 1])
    assert response.headers["content-range"] == f"bytes {start}-{end}/{len(VIDEO)}"
    assert response.headers["content-length"] == str(end - start + 1)
    assert response.headers["content-security-policy"] == CONTENT_POLICY


@pytest.mark.parametrize("asked", ["bytes=x-y", "items=0-1", "bytes=9-5", "0-5", "bytes=", "é"])
def test_a_malformed_range_is_ignored(content: Content, asked: str) -> None:
    """A request with a range in an unknown form gets the whole file."""
    response = content.site.get(content.video, headers={"range": asked.encode()})
    assert (response.status_code, response.content) == (200, VIDEO)


def test_a_range_after_the_end_is_416_in_our_format(content: Content) -> None:
    """The player learns how long the file is."""
    response = content.site.get(content.video, headers={"range": "bytes=1024-"})
    status, code, context = error_of(response)
    assert (status, code, context["size"]) == (416, "RANGE_NOT_SATISFIABLE", len(VIDEO))
    assert response.headers["content-range"] == f"bytes */{len(VIDEO)}"


def test_a_head_has_the_headers_of_the_get(content: Content) -> None:
    """Everything but the content, and the whole also when a range is asked for."""
    get = content.site.get(content.video)
    head = content.site.ask("HEAD", content.video)
    ranged = content.site.ask("HEAD", content.video, headers={"range": "bytes=0-1"})
    assert head.headers == get.headers == ranged.headers
    assert (head.status_code, head.content) == (200, b"")


def test_what_the_client_has_is_not_sent_again(content: Content) -> None:
    """By tag or by time; the answer carries the validators and no content."""
    headers = content.site.get(content.video).headers
    for condition in (
        {"if-none-match": headers["etag"]},
        {"if-modified-since": headers["last-modified"]},
    ):
        response = content.site.get(content.video, headers=condition)
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == headers["etag"]


def test_a_part_of_another_version_is_not_sent(own: Content) -> None:
    """If-Range with an old tag gets the whole new file instead of a piece that does not fit."""
    old = own.site.get(own.video).headers["etag"]
    (own.place / "video.mp4").write_bytes(VIDEO + b"more")
    own.import_again()
    headers = {"range": "bytes=0-9", "if-range": old}
    response = own.site.get(own.video, headers=headers)
    assert (response.status_code, response.content) == (200, VIDEO + b"more")
    headers["if-range"] = response.headers["etag"]
    assert own.site.get(own.video, headers=headers).status_code == 206


def test_an_empty_file_is_sent_as_such(content: Content) -> None:
    """Nothing is a content too, and has no part."""
    path = content.artifact("empty.txt")
    response = content.site.get(path)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == "0"
    ranged = content.site.get(path, headers={"range": "bytes=0-"})
    assert error_of(ranged)[:2] == (416, "RANGE_NOT_SATISFIABLE")


def test_what_was_overwritten_is_not_sent_for_the_old_run(own: Content) -> None:
    """The page never shows another video than the one that was imported."""
    (own.place / "video.mp4").write_bytes(b"another")
    for path in (own.video, own.artifact("log.txt")):
        assert error_of(own.site.get(path))[:2] == (409, "CONFLICT")
    assert open_files(own.place) == []


def test_a_run_without_a_video_says_so(own: Content) -> None:
    """404 in our shape, with what to do."""
    (own.place / "video.mp4").unlink()
    own.import_again()
    assert error_of(own.site.get(own.video))[:2] == (404, "FILE_NOT_FOUND")


# --- sandbox --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("script.json", "application/json"),
        ("notes.md", "text/plain; charset=utf-8"),
        ("log.txt", "text/plain; charset=utf-8"),
        ("picture.png", "image/png"),
        ("drawing.svg", "image/svg+xml"),
    ],
)
def test_files_are_sent_under_a_type_that_runs_nothing(
    content: Content, name: str, kind: str
) -> None:
    """The type comes from our list, and the sandbox holds whatever is inside."""
    response = content.site.get(content.artifact(name))
    assert response.headers["content-type"] == kind
    assert response.headers["content-security-policy"] == CONTENT_POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-disposition"] == f'inline; filename="{name}"'


def test_what_is_not_on_the_list_is_only_bytes() -> None:
    """An unknown suffix never becomes a page."""
    assert content_type("page.html", "image") == "application/octet-stream"
    assert content_type("page.html", "text") == "text/plain; charset=utf-8"


def test_markdown_is_rendered_without_code(content: Content) -> None:
    """HTML in the text is shown, not done; scripts in links are dropped; the sandbox is on."""
    response = content.site.get(content.artifact("notes.md"), params={"rendered": "true"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == CONTENT_POLICY
    page = response.text
    assert "<h1>Title &amp; more</h1>" in page
    assert "<strong>bold</strong>" in page
    assert "<script" not in page
    assert 'href="javascript' not in page
    again = content.site.get(
        content.artifact("notes.md"),
        params={"rendered": "true"},
        headers={"if-none-match": response.headers["etag"]},
    )
    assert again.status_code == 304
    assert (
        content.site.get(content.artifact("notes.md")).headers["etag"] != response.headers["etag"]
    )


def test_only_markdown_is_rendered(content: Content) -> None:
    """Another file cannot be had as a page."""
    response = content.site.get(content.artifact("log.txt"), params={"rendered": "true"})
    status, code, context = error_of(response)
    assert (status, code, context["field"]) == (400, "INVALID_ARGUMENT", "rendered")


def test_markdown_without_end_is_not_rendered(own: Content) -> None:
    """A file that would take long is refused, and can still be read as text."""
    (own.place / "notes.md").write_bytes(b"x" * (MARKDOWN_BYTES_MAX + 1))
    own.import_again()
    path = own.artifact("notes.md")
    assert error_of(own.site.get(path, params={"rendered": "true"}))[:2] == (413, "TOO_LARGE")
    assert own.site.get(path).status_code == 200


@pytest.mark.parametrize("name", ["lab.json", "other.txt", "script.json/", "", "a/../script.json"])
def test_undeclared_files_do_not_exist(content: Content, name: str) -> None:
    """Only known names and declared files are served."""
    (content.place / "other.txt").write_text("secret")
    path = content.artifact(name.replace("..", "%2e%2e"))
    assert error_of(content.site.get(path))[:2] == (404, "NOT_FOUND")


def test_a_link_in_the_place_of_a_file_is_not_followed(own: Content, tmp_path: Path) -> None:
    """What a link leads to is not served, wherever it leads."""
    (tmp_path / "secret").write_text("secret")
    (own.place / "log.txt").unlink()
    (own.place / "log.txt").symlink_to(tmp_path / "secret")
    own.import_again()
    response = own.site.get(own.artifact("log.txt"))
    assert error_of(response)[:2] == (400, "WRONG_PATH")


def test_a_name_cannot_break_out_of_its_header(own: Content) -> None:
    """Quotes, semicolons and other scripts in a declared name become harmless."""
    name = 'sub/we"ird;é.txt'
    (own.place / "sub").mkdir()
    (own.place / name).write_text("x")
    declared = {"files": [{"path": name, "label": "x", "kind": "text"}]}
    (own.place / "lab.json").write_text(json.dumps(declared))
    own.import_again()
    response = own.site.get(own.artifact("sub/we%22ird;%C3%A9.txt"))
    assert response.headers["content-disposition"] == 'inline; filename="we_ird__.txt"'


# --- streams --------------------------------------------------------------------------------------


async def call(
    content: Content,
    path: str,
    on_message: Callable[[int], object] = lambda _: None,
    *,
    query: bytes = b"",
    gone_at: Awaitable[object] | None = None,
) -> list[Message]:
    """Send a GET; hang up at `gone_at`, or when `on_message`, given the count, returns true."""
    came: list[Message] = []
    asked, left = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        if asked.is_set():
            await (left.wait() if gone_at is None else gone_at)
            return {"type": "http.disconnect"}
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        came.append(message)
        if on_message(len(came)) is True:
            left.set()

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1:3939")],
        "server": ("127.0.0.1", 3939),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "root_path": "",
    }
    await content.site.guard(scope, receive, send)
    return came


def test_a_large_file_is_sent_in_chunks(own: Content) -> None:
    """No answer holds more than a chunk of it in memory."""
    (own.place / "video.mp4").write_bytes(os.urandom(CHUNK_BYTES * 3 + 5))
    own.import_again()
    came = asyncio.run(call(own, own.video))
    sizes = [len(each["body"]) for each in came[1:]]
    assert sizes == [CHUNK_BYTES] * 3 + [5, 0]
    body = b"".join(each["body"] for each in came[1:])
    assert body == (own.place / "video.mp4").read_bytes()
    assert open_files(own.place) == []


def test_a_client_that_hangs_up_leaves_nothing_open(own: Content) -> None:
    """The rest of the file is not read, and the file is closed."""
    (own.place / "video.mp4").write_bytes(b"x" * CHUNK_BYTES * 50)
    own.import_again()
    came = asyncio.run(call(own, own.video, lambda count: count >= 3))
    assert len(came) < 10
    assert open_files(own.place) == []


def test_a_file_that_shrinks_is_cut_off_and_closed(own: Content) -> None:
    """The length was promised, so the connection ends rather than the answer."""
    video = own.place / "video.mp4"
    video.write_bytes(b"x" * CHUNK_BYTES * 4)
    own.import_again()

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(call(own, own.video, lambda _: os.truncate(video, 10)))
    assert isinstance(caught.value.__cause__, StorageError)
    assert open_files(own.place) == []


def test_no_answer_leaves_a_file_open(own: Content) -> None:
    """Also not those that send nothing of it."""
    tag = own.site.get(own.video).headers["etag"]
    for headers in ({"if-none-match": tag}, {"range": "bytes=9999-"}, {}):
        own.site.get(own.video, headers=headers)
        own.site.ask("HEAD", own.video, headers=headers)
    own.site.get(own.artifact("log.txt"), params={"rendered": "true"})
    own.site.get(own.artifact("notes.md"), params={"rendered": "true"})
    assert open_files(own.place) == []
