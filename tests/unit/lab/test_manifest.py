"""Manifests: what lab.json declares, and how a broken one stays usable."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward.errors import DiskFull, FileMissing, NotWritable, StorageError, TooLarge, WrongPath
from onceward.lab.manifest import (
    KIND_OF_EXTENSION,
    DeclaredArtifact,
    Manifest,
    content_type,
    problem_text,
    read_json,
    read_manifest,
)
from onceward.system.safe_paths import RootedDirectory


def reading(directory: Path, manifest: object) -> Manifest:
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    (directory / "lab.json").write_bytes(data)
    with RootedDirectory.open(directory) as opened:
        return read_manifest(opened)


def problems(manifest: Manifest) -> list[str]:
    assert all(each.name == "lab.json" for each in manifest.problems)
    return [each.problem for each in manifest.problems]


def test_a_manifest_says_what_the_run_is(tmp_path: Path) -> None:
    """Titles, video and files are read; a file is a name or an object, its kind known or given."""
    found = reading(
        tmp_path,
        {
            "title": " The title ",
            "topic": "Topic",
            "prompt": "Do it\nwell",
            "video": "out/movie.webm",
            "files": [
                "answer.md",
                {"path": "out/x.txt", "label": "Answer", "kind": "text"},
                {"path": "./out//chart.SVG", "label": ""},
                {"path": "notes.unknown", "kind": "markdown"},
                {"path": "page.html", "more": 1},
            ],
            "unknown": True,
        },
    )
    assert found == Manifest(
        is_present=True,
        title="The title",
        topic="Topic",
        prompt="Do it\nwell",
        video="out/movie.webm",
        files=(
            DeclaredArtifact(path="answer.md", label="answer.md", kind="markdown"),
            DeclaredArtifact(path="out/x.txt", label="Answer", kind="text"),
            DeclaredArtifact(path="out/chart.SVG", label="out/chart.SVG", kind="image"),
            DeclaredArtifact(path="notes.unknown", label="notes.unknown", kind="markdown"),
            DeclaredArtifact(path="page.html", label="page.html", kind="text"),
        ),
    )


def test_no_manifest_is_no_problem(tmp_path: Path) -> None:
    """A run without one is a run like any other."""
    with RootedDirectory.open(tmp_path) as opened:
        assert read_manifest(opened) == Manifest()
    assert reading(tmp_path, {}) == Manifest(is_present=True)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"{", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b'{"title": NaN}', "is not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"[" * 5000, "is not valid JSON"),
        (b"[" * 500 + b"]" * 500, "nested more than 100 levels deep"),
        (b" " * (1024 * 1024) + b"{}", "is larger than 1 MiB"),
    ],
)
def test_a_broken_manifest_is_a_problem(tmp_path: Path, broken: bytes, problem: str) -> None:
    """What cannot be read at all is said, in one sentence, and nothing is declared."""
    found = reading(tmp_path, broken)
    assert found.is_present
    (only,) = problems(found)
    assert problem in only
    assert found == Manifest(is_present=True, problems=found.problems)


def test_a_manifest_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    """A planted link declares nothing."""
    (tmp_path / "other.json").write_text('{"title": "secret"}')
    (tmp_path / "lab.json").symlink_to("other.json")
    with RootedDirectory.open(tmp_path) as opened:
        found = read_manifest(opened)
    assert found.title is None
    assert "is a link" in problems(found)[0]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("../x.txt", "is not the path of a file inside the run"),
        ("a/../../x.txt", "is not the path of a file inside the run"),
        ("/etc/passwd.txt", "is not the path of a file inside the run"),
        ("", "is not the path of a file inside the run"),
        (".", "is not the path of a file inside the run"),
        ("a\0.txt", "is not the path of a file inside the run"),
        ("x" * 1100 + ".txt", "is too long"),
        (7, "its path is not text"),
        (None, "its path is not text"),
        ([], "its path is not text"),
        ({}, "its path is not text"),
        ({"path": ["x.txt"]}, "its path is not text"),
        ("program.exe", "unknown extension"),
        ("noending", "unknown extension"),
        (".txt", "unknown extension"),
        ({"path": "x.txt", "kind": "html"}, "kind must be text or markdown or image"),
        ({"path": "x.txt", "kind": "json"}, "kind must be text or markdown or image"),
        ({"path": "x.txt", "kind": ["text"]}, "kind must be text or markdown or image"),
        ({"path": "x.html", "kind": "image"}, "is not an image type that browsers show"),
        ("good.txt", "is declared twice"),
        ("./good.txt", "is declared twice"),
    ],
)
def test_a_wrong_file_is_a_problem_and_the_rest_stays(
    tmp_path: Path, entry: object, problem: str
) -> None:
    """One bad line costs that line only, and the problem says which it is."""
    found = reading(tmp_path, {"title": "T", "files": ["good.txt", entry, "more.md"]})
    assert [each.path for each in found.files] == ["good.txt", "more.md"]
    assert found.title == "T"
    (only,) = problems(found)
    assert only.startswith("files[1]: ")
    assert problem in only
    assert len(only) < 250


def test_wrong_fields_are_problems_and_the_rest_stays(tmp_path: Path) -> None:
    """Fields of the wrong type are named and left out."""
    found = reading(
        tmp_path,
        {
            "title": 7,
            "topic": ["x"],
            "prompt": {},
            "video": "movie.avi",
            "files": [{"path": "x.txt", "label": 7}],
        },
    )
    assert (found.title, found.topic, found.prompt, found.video) == (None,) * 4
    assert found.files == (DeclaredArtifact(path="x.txt", label="x.txt", kind="text"),)
    assert problems(found) == [
        "has a title that is not text",
        "has a topic that is not text",
        "has a prompt that is not text",
        "video: 'movie.avi' must end in .mp4 or .webm",
        "files[0]: its label is not text",
    ]
    assert "not a list" in problems(reading(tmp_path, {"files": {"path": "x.txt"}}))[0]
    assert "inside the run" in problems(reading(tmp_path, {"video": "../movie.mp4"}))[0]
    assert "not text" in problems(reading(tmp_path, {"video": 1}))[0]


def test_a_manifest_declares_fifty_files_at_most(tmp_path: Path) -> None:
    """The fifty-first is left out, and that is said."""
    fifty = [f"{number}.txt" for number in range(50)]
    assert len(reading(tmp_path, {"files": fifty}).files) == 50
    found = reading(tmp_path, {"files": [*fifty, "last.txt"]})
    assert len(found.files) == 50
    assert problems(found) == ["declares more than 50 files; the rest is ignored"]


def test_long_texts_are_cut(tmp_path: Path) -> None:
    """A title is a title; a prompt may be long."""
    found = reading(tmp_path, {"title": "t" * 9000, "topic": "  ", "prompt": "p" * 200_000})
    assert (len(found.title or ""), found.topic, len(found.prompt or "")) == (500, None, 100_000)


def test_kinds_have_types_that_do_not_run() -> None:
    """Text of any sort is plain text, images are images, and nothing is served as a page."""
    for ending, kind in KIND_OF_EXTENSION.items():
        served = content_type(f"out/x.{ending}", kind)
        assert served == "text/plain; charset=utf-8" or served.startswith("image/"), ending
    assert content_type("x.html", "text") == "text/plain; charset=utf-8"
    assert content_type("x.md", "markdown") == "text/plain; charset=utf-8"
    assert content_type("x.JPG", "image") == "image/jpeg"
    assert content_type("x.svg", "image") == "image/svg+xml"
    assert content_type("x.svg", "text") == "text/plain; charset=utf-8"
    assert content_type("script.json", "json") == "application/json"
    assert content_type("x.mp4", "video") == "video/mp4"
    assert content_type("x.webm", "video") == "video/webm"
    assert content_type("x.html", "image") == "application/octet-stream"


def test_json_is_read_with_a_mark_and_to_its_depth(tmp_path: Path) -> None:
    """A byte order mark is fine, and so are a hundred levels, but no more."""
    with RootedDirectory.open(tmp_path) as opened:
        (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"a":1}')
        assert read_json(opened, "x.json", bytes_max=100) == ({"a": 1}, None)
        (tmp_path / "x.json").write_bytes(b'{"a":' * 100 + b"1" + b"}" * 100)
        assert read_json(opened, "x.json", bytes_max=1000)[1] is None
        (tmp_path / "x.json").write_bytes(b"[" * 101 + b"]" * 101)
        assert read_json(opened, "x.json", bytes_max=1000)[1] is not None
        os.mkfifo(tmp_path / "pipe")
        assert read_json(opened, "pipe", bytes_max=10) == (
            None,
            "is a link or not a regular file, so it is not read",
        )
        with pytest.raises(FileMissing):
            read_json(opened, "none.json", bytes_max=10)


def test_reasons_read_as_the_rest_of_a_sentence() -> None:
    """Every refusal of the disk has words for people."""
    kinds = (FileMissing, WrongPath, NotWritable, TooLarge, DiskFull, StorageError)
    said = [problem_text(kind("odd")) for kind in kinds]
    assert len(set(said)) == 5
    assert said[-1] == "could not be read: odd"
    assert all(each.split()[0] in {"does", "is", "cannot", "could"} for each in said)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["title", "topic", "prompt", "video", "files", "path", "label", "kind"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values, raw=st.none() | st.binary(max_size=30))
def test_no_manifest_breaks_it(tmp_path: Path, value: object, raw: bytes | None) -> None:
    """Whatever it holds, what comes out is safe to use."""
    found = reading(tmp_path, value if raw is None else raw)
    for each in found.files:
        assert ".." not in each.path.split("/")
        assert not each.path.startswith("/")
        assert each.label
