"""What makes a run that run: the video that is watched, the files that count."""

import json
import os
from pathlib import Path

import pytest

from onceward import rooted
from onceward.errors import FileMissing, TooLarge
from tests.unit.lab.run_places import Opener, here, look, problems, put, root

__all__ = ["here", "look", "root"]


# --- video --------------------------------------------------------------------------------------


def test_the_video_is_the_one_named_else_the_usual_else_the_only_one(
    here: Path, look: Opener
) -> None:
    """Asked for, declared, `video.mp4`, the only one: in that order."""
    put(here / "only.WebM", b"only")
    assert look().video_name() == "only.WebM"
    put(here / "other.mp4", b"other")
    assert look().video_name() is None
    assert problems(look()) == {"lab.json": "should name the video: there are 2 here"}
    put(here / "video.mp4", b"usual")
    assert look().video_name() == "video.mp4"
    put(here / "out" / "declared.mp4", b"declared")
    put(here / "lab.json", {"video": "out/declared.mp4"})
    assert look().video_name() == "out/declared.mp4"
    assert look(video="other.mp4").video_name() == "other.mp4"
    with look(video="other.mp4").open_video() as file:
        assert file.read(0, 100) == b"other"


def test_a_video_may_be_named_by_its_whole_path(root: Path, here: Path, look: Opener) -> None:
    """A recorded path, through a link or not, is the file of that name in the run."""
    for name in ("one.mp4", "two.mp4"):
        put(here / name, name.encode())
    (root / "latest").symlink_to("run")
    assert look(video=str(here / "two.mp4")).video_name() == "two.mp4"
    assert look(video=str(root / "latest" / "two.mp4")).video_name() == "two.mp4"
    for outside in (str(root / "two.mp4"), "/etc/x.mp4", "../two.mp4", "/\0/x.mp4", "\ud800.mp4"):
        assert look(video=outside).video_name() is None


def test_a_named_video_that_is_gone_is_not_replaced_by_another(here: Path, look: Opener) -> None:
    """People never judge another video than the one that was meant."""
    put(here / "video.mp4", b"another")
    run = look(video="gone.mp4")
    assert run.video_name() is None
    assert problems(run) == {"gone.mp4": "does not exist"}
    with pytest.raises(FileMissing, match="no video"):
        run.open_video()
    put(here / "lab.json", {"video": "gone.mp4"})
    assert look().video_name() is None


def test_what_browsers_do_not_play_is_no_video(here: Path, look: Opener) -> None:
    """A file that merely is called the video is refused by its ending."""
    put(here / "page.html", b"<script>")
    run = look(video="page.html")
    assert run.video_name() is None
    assert problems(run) == {"page.html": "is not a video that browsers play"}


def test_a_video_whose_name_is_not_text_is_left_alone(here: Path, look: Opener) -> None:
    """A name that no record can hold is nobody's video, and the run is still fingerprinted."""
    odd = os.fsdecode(os.fsencode(here) + b"/\xff.mp4")
    put(Path(odd), b"odd")
    run = look()
    assert run.video_name() is None
    (only,) = run.fingerprint()["files"]
    json.dumps(only).encode()
    assert only["path"] == f"{here}/\\udcff.mp4"


# --- fingerprint --------------------------------------------------------------------------------


def stamp(path: Path, mtime_ns: int) -> None:
    os.utime(path, ns=(0, mtime_ns))


def test_the_fingerprint_is_video_and_script(here: Path, look: Opener) -> None:
    """Absolute path, size and whole milliseconds of each; other files play no part."""
    put(here / "video.mp4", b"12345")
    put(here / "script.json", b"{}")
    put(here / "score.json", b"{}")
    stamp(here / "video.mp4", 1_700_000_000_123_999_999)
    stamp(here / "script.json", 5_000_000)
    expected = {
        "video": {
            "path": str(here / "video.mp4"),
            "sizeBytes": 5,
            "mtimeMs": 1_700_000_000_123,
        },
        "script": {"path": str(here / "script.json"), "sizeBytes": 2, "mtimeMs": 5},
    }
    assert look().fingerprint() == expected
    put(here / "score.json", b"{ }")
    assert look().fingerprint() == expected
    stamp(here / "script.json", 6_000_000)
    assert look().fingerprint() != expected
    (here / "video.mp4").unlink()
    assert set(look().fingerprint()) == {"script"}


def test_declared_files_are_part_of_the_fingerprint(here: Path, look: Opener) -> None:
    """The manifest and what it declares count, by path; what is missing is left out."""
    put(here / "lab.json", {"files": ["z.txt", "a/b.md", "none.txt", "script.json"]})
    for name in ("z.txt", "a/b.md", "script.json", "other.txt"):
        put(here / name, b"1")
    found = look().fingerprint()
    assert set(found) == {"script", "files"}
    names = [Path(each["path"]).relative_to(here).as_posix() for each in found["files"]]
    assert names == ["a/b.md", "lab.json", "script.json", "z.txt"]
    put(here / "a" / "b.md", b"22")
    assert look().fingerprint() != found


def test_without_any_of_them_every_file_counts(here: Path, look: Opener, tmp_path: Path) -> None:
    """A directory of reports only is known by the list of its files."""
    put(here / "score.json", b"{}")
    put(here / "notes.txt", b"abc")
    put(here / "deep" / "x.txt", b"abc")
    (here / "link.txt").symlink_to(tmp_path / "secret.json")
    put(here / "lab.json", b"broken")
    found = look().fingerprint()
    assert set(found) == {"files"}
    names = [Path(each["path"]).name for each in found["files"]]
    assert names == ["lab.json", "notes.txt", "score.json"]
    put(here / "notes.txt", b"abcd")
    assert look().fingerprint() != found


def test_a_directory_with_too_many_files_is_still_shown(
    here: Path, look: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing gives up and says so; only a fingerprint that needs the list is refused."""
    monkeypatch.setattr(rooted, "ENTRIES_MAX", 3)
    for number in range(5):
        put(here / f"{number}.txt")
    put(here / "score.json", {"overall": 1})
    run = look()
    assert run.is_recognisable()
    assert run.metrics().proxy_score_overall == 100.0
    assert problems(run) == {".": "the directory holds more than 3 files"}
    with pytest.raises(TooLarge):
        run.fingerprint()
    put(here / "video.mp4")
    assert set(look().fingerprint()) == {"video"}
