"""Content fingerprint: which files identify a run, and when it counts as changed."""

import json
import os
from pathlib import Path

import pytest

from onceward.errors import FileMissing, TooLarge
from onceward.system import safe_paths
from tests.support.lab_run_directories import Opener, open_run, problems, root, run_path, write_file

__all__ = ["open_run", "root", "run_path"]


# --- video --------------------------------------------------------------------------------------


def test_the_video_is_the_one_named_else_the_usual_else_the_only_one(
    run_path: Path, open_run: Opener
) -> None:
    """Asked for, declared, `video.mp4`, the only one: in that order."""
    write_file(run_path / "only.WebM", b"only")
    assert open_run().video_name() == "only.WebM"
    write_file(run_path / "other.mp4", b"other")
    assert open_run().video_name() is None
    assert problems(open_run()) == {"lab.json": "should name the video: there are 2 here"}
    with pytest.raises(FileMissing, match="several videos"):
        open_run().open_video()
    write_file(run_path / "video.mp4", b"usual")
    assert open_run().video_name() == "video.mp4"
    write_file(run_path / "out" / "declared.mp4", b"declared")
    write_file(run_path / "lab.json", {"video": "out/declared.mp4"})
    assert open_run().video_name() == "out/declared.mp4"
    assert open_run(video="other.mp4").video_name() == "other.mp4"
    with open_run(video="other.mp4").open_video() as file:
        assert file.read(0, 100) == b"other"


def test_a_video_may_be_named_by_its_whole_path(
    root: Path, run_path: Path, open_run: Opener
) -> None:
    """A recorded path, through a link or not, is the file of that name in the run."""
    for name in ("one.mp4", "two.mp4"):
        write_file(run_path / name, name.encode())
    (root / "latest").symlink_to("run")
    assert open_run(video=str(run_path / "two.mp4")).video_name() == "two.mp4"
    assert open_run(video=str(root / "latest" / "two.mp4")).video_name() == "two.mp4"
    for outside in (str(root / "two.mp4"), "/etc/x.mp4", "../two.mp4", "/\0/x.mp4", "\ud800.mp4"):
        assert open_run(video=outside).video_name() is None


def test_a_named_video_that_is_gone_is_not_replaced_by_another(
    run_path: Path, open_run: Opener
) -> None:
    """People never judge another video than the one that was meant."""
    write_file(run_path / "video.mp4", b"another")
    run = open_run(video="gone.mp4")
    assert run.video_name() is None
    assert problems(run) == {"gone.mp4": "does not exist"}
    with pytest.raises(FileMissing, match="'gone.mp4', is missing"):
        run.open_video()
    write_file(run_path / "lab.json", {"video": "gone.mp4"})
    assert open_run().video_name() is None


def test_what_browsers_do_not_play_is_no_video(run_path: Path, open_run: Opener) -> None:
    """A file that merely is called the video is refused by its ending."""
    write_file(run_path / "page.html", b"<script>")
    run = open_run(video="page.html")
    assert run.video_name() is None
    assert problems(run) == {"page.html": "is not a video that browsers play"}


def test_a_video_whose_name_is_not_text_is_left_alone(run_path: Path, open_run: Opener) -> None:
    """A name that no record can hold is not taken as the video; the rest is fingerprinted."""
    odd = os.fsdecode(os.fsencode(run_path) + b"/\xff.mp4")
    write_file(Path(odd), b"odd")
    run = open_run()
    assert run.video_name() is None
    (only,) = run.fingerprint()["files"]
    json.dumps(only).encode()
    assert only["path"] == f"{run_path}/\\udcff.mp4"


# --- fingerprint --------------------------------------------------------------------------------


def stamp(path: Path, mtime_ns: int) -> None:
    os.utime(path, ns=(0, mtime_ns))


def test_the_fingerprint_is_video_and_script(run_path: Path, open_run: Opener) -> None:
    """Absolute path, size and whole milliseconds of each; other files play no part."""
    write_file(run_path / "video.mp4", b"12345")
    write_file(run_path / "script.json", b"{}")
    write_file(run_path / "score.json", b"{}")
    stamp(run_path / "video.mp4", 1_700_000_000_123_999_999)
    stamp(run_path / "script.json", 5_000_000)
    expected = {
        "video": {
            "path": str(run_path / "video.mp4"),
            "sizeBytes": 5,
            "mtimeMs": 1_700_000_000_123,
        },
        "script": {"path": str(run_path / "script.json"), "sizeBytes": 2, "mtimeMs": 5},
    }
    assert open_run().fingerprint() == expected
    write_file(run_path / "score.json", b"{ }")
    assert open_run().fingerprint() == expected
    stamp(run_path / "script.json", 6_000_000)
    assert open_run().fingerprint() != expected
    (run_path / "video.mp4").unlink()
    assert set(open_run().fingerprint()) == {"script"}


def test_declared_files_are_part_of_the_fingerprint(run_path: Path, open_run: Opener) -> None:
    """The manifest and what it declares count, by path; what is missing is left out."""
    write_file(run_path / "lab.json", {"files": ["z.txt", "a/b.md", "none.txt", "script.json"]})
    for name in ("z.txt", "a/b.md", "script.json", "other.txt"):
        write_file(run_path / name, b"1")
    found = open_run().fingerprint()
    assert set(found) == {"script", "files"}
    names = [Path(each["path"]).relative_to(run_path).as_posix() for each in found["files"]]
    assert names == ["a/b.md", "lab.json", "script.json", "z.txt"]
    write_file(run_path / "a" / "b.md", b"22")
    assert open_run().fingerprint() != found


def test_without_any_of_them_every_file_counts(
    run_path: Path, open_run: Opener, tmp_path: Path
) -> None:
    """A directory of reports only is known by the list of its files."""
    write_file(run_path / "score.json", b"{}")
    write_file(run_path / "notes.txt", b"abc")
    write_file(run_path / "deep" / "x.txt", b"abc")
    (run_path / "link.txt").symlink_to(tmp_path / "secret.json")
    write_file(run_path / "lab.json", b"broken")
    found = open_run().fingerprint()
    assert set(found) == {"files"}
    names = [Path(each["path"]).name for each in found["files"]]
    assert names == ["lab.json", "notes.txt", "score.json"]
    write_file(run_path / "notes.txt", b"abcd")
    assert open_run().fingerprint() != found


def test_a_directory_with_too_many_files_is_still_shown(
    run_path: Path, open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing gives up and says so; only a fingerprint that needs the list is refused."""
    monkeypatch.setattr(safe_paths, "ENTRIES_MAX", 3)
    for number in range(5):
        write_file(run_path / f"{number}.txt")
    write_file(run_path / "score.json", {"overall": 1})
    run = open_run()
    assert run.is_recognisable()
    assert run.metrics().proxy_score_overall == 100.0
    assert problems(run) == {".": "the directory holds more than 3 files"}
    with pytest.raises(TooLarge):
        run.fingerprint()
    write_file(run_path / "video.mp4")
    assert set(open_run().fingerprint()) == {"video"}
