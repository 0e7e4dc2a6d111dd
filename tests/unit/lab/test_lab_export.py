"""Lab export: one self-contained file, in a directory that no path or link can leave."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import FileMissing, InvalidArgument, RequestRefused
from onceward.journal import Journal
from onceward.lab import Lab, NewFeedback, lab_export
from onceward.system import ManualClock, crash_points
from tests.support.labs import make_experiment, make_lab, make_run, submission


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A Lab whose allowed root is `allowed`, beside a directory that is not."""
    for name in ("allowed", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "export.json").write_text('{"schemaVersion":1,"exportedAt":"')
    made = make_lab(tmp_path, clock=ManualClock())
    made.roots = (tmp_path / "allowed",)
    return made


def content(path: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def everything(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, links not followed."""
    files = [each for each in directory.rglob("*") if each.is_file() and not each.is_symlink()]
    return {str(each.relative_to(directory)): each.read_bytes() for each in files}


def test_an_export_contains_all_records_unchanged(tmp_path: Path) -> None:
    """Runs and feedback line by line, of each experiment the last line; the count is feedback's."""
    lab = make_lab(tmp_path, clock=ManualClock())
    experiment = make_experiment(lab, tmp_path)
    lab.submit(experiment.experiment_id, submission(experiment))
    lab.add_feedback(NewFeedback(notes="by the way"))
    exported = lab.export()
    found = content(exported.path)
    assert list(found) == [
        *("schemaVersion", "exportedAt", "sessionId", "runs", "experiments", "feedback"),
    ]
    assert (found["schemaVersion"], found["sessionId"]) == (1, None)
    assert found["exportedAt"] == "2026-01-01T00:00:00.000Z"
    assert found["runs"] == Journal(lab.paths.runs).read().items
    assert found["experiments"] == Journal(lab.paths.experiments).read().items[-1:]
    assert found["feedback"] == Journal(lab.paths.feedback).read().items
    assert exported.count == len(found["feedback"]) == 3


def test_an_export_of_a_session_is_self_contained(tmp_path: Path) -> None:
    """It holds what belongs to the session, and the runs of earlier sessions that that names."""
    first, second = make_lab(tmp_path, "lab_a"), make_lab(tmp_path, "lab_b")
    run = first.import_run(str(make_run(tmp_path, "shared")))
    first.import_run(str(make_run(tmp_path, "unused")))
    first.add_feedback(NewFeedback(notes="first"))
    other = make_experiment(first, tmp_path)
    second.add_feedback(NewFeedback(runId=run.run_id, notes="second"))
    second.add_feedback(NewFeedback(experimentId=other.experiment_id, notes="third"))
    found = content(first.export(session_id="lab_b").path)
    assert found["sessionId"] == "lab_b"
    assert [each["notes"] for each in found["feedback"]] == ["second", "third"]
    assert [each["experimentId"] for each in found["experiments"]] == [other.experiment_id]
    compared = {other.baseline_run_id, *(each.run_id for each in other.variants)}
    assert {each["runId"] for each in found["runs"]} == {run.run_id, *compared}


def test_an_empty_lab_can_be_exported(lab: Lab) -> None:
    """Nothing is missing: there is just nothing in it."""
    exported = lab.export()
    assert exported.count == 0
    assert content(exported.path)["runs"] == []


def test_lines_that_are_no_records_are_left_out(lab: Lab) -> None:
    """What readers skip is not exported either."""
    Journal(lab.paths.feedback).append({"id": "fb_1"}, {"id": "fb_2", "createdAt": "x", "ours": 1})
    Journal(lab.paths.runs).append({"runId": 7})
    found = content(lab.export().path)
    assert found["feedback"] == [{"id": "fb_2", "createdAt": "x", "ours": 1}]
    assert found["runs"] == []


def test_names_are_made_of_the_time_and_never_reused(lab: Lab) -> None:
    """Two exports of the same millisecond are two files, also when neither sees the other."""
    names = {Path(lab.export().path).name for _ in range(3)}
    assert all(
        re.fullmatch(r"lab-20260101T000000\.000Z-[0-9a-f]{12}\.json", each) for each in names
    )
    assert {each.name for each in lab.paths.exports.iterdir()} == names
    assert len(names) == 3


def test_exports_that_begin_together_do_not_meet(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both choose a name before either has written: each gets what it asked for."""
    both, collected = threading.Barrier(2, timeout=60), lab_export.collect_records

    def collect(*given: Any, **options: Any) -> Any:
        both.wait()
        return collected(*given, **options)

    monkeypatch.setattr(lab_export, "collect_records", collect)
    with ThreadPoolExecutor(2) as pool:
        asked = ["lab_a", "lab_b"]
        made = list(pool.map(lambda each: lab.export(session_id=each).path, asked))
    assert [content(each)["sessionId"] for each in made] == asked


def test_a_deeply_nested_line_is_exported(lab: Lab) -> None:
    """What the journal reads, an export holds, and everything beside it."""
    nested = '{"a":' * 900 + "1" + "}" * 900
    lines = [
        '{"id":"fb_1","createdAt":"x","extra":' + nested + "}",
        '{"id":"fb_2","createdAt":"x"}',
    ]
    lab.paths.feedback.parent.mkdir(parents=True, exist_ok=True)
    lab.paths.feedback.write_text("".join(f"{line}\n" for line in lines))
    exported = lab.export()
    assert exported.count == 2
    assert ",".join(lines) in Path(exported.path).read_text()


def test_a_second_name_of_a_file_is_not_written_through(lab: Lab, tmp_path: Path) -> None:
    """A hard link in the place of the temporary is taken away; what it named stays as it is."""
    precious = tmp_path / "outside" / "precious.txt"
    precious.write_text("precious")
    planted = tmp_path / "allowed" / ".x.json.tmp"
    planted.hardlink_to(precious)
    assert lab.export(path=str(tmp_path / "allowed" / "x.json")).count == 0
    assert precious.read_text() == "precious"
    assert precious.stat().st_nlink == 1
    assert content(tmp_path / "allowed" / "x.json")["feedback"] == []


def test_a_relative_name_lies_in_the_exports(lab: Lab) -> None:
    """Also in a directory below, if that exists."""
    assert lab.export(path="mine.json").path == str(lab.paths.exports / "mine.json")
    (lab.paths.exports / "week").mkdir()
    assert lab.export(path="./week/mine.json").path == str(lab.paths.exports / "week" / "mine.json")
    with pytest.raises(FileMissing, match="directory of the export does not exist"):
        lab.export(path="month/mine.json")


def test_an_absolute_path_lies_in_an_allowed_root_or_the_exports(lab: Lab, tmp_path: Path) -> None:
    """Spelled as people do, which may be over a link to the root."""
    (tmp_path / "short").symlink_to(tmp_path / "allowed")
    for asked in (tmp_path / "allowed" / "a.json", tmp_path / "short" / "b.json"):
        assert lab.export(path=str(asked)).path == str(tmp_path / "allowed" / asked.name)
    inside = lab.paths.exports / "c.json"
    assert lab.export(path=str(inside)).path == str(inside)


def test_an_export_replaces_an_export_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    """A file that holds something else stays as it is."""
    mine = tmp_path / "allowed" / "mine.json"
    lab.export(path=str(mine))
    lab.add_feedback(NewFeedback(notes="more"))
    assert lab.export(path=str(mine)).count == 1
    assert len(content(mine)["feedback"]) == 1
    for text in ("", "{}", '{"name": "package"}', '{"schemaVersion":1,"id":"fb_1"}'):
        mine.write_text(text)
        with pytest.raises(RequestRefused, match="is not an export"):
            lab.export(path=str(mine))
        assert mine.read_text() == text


@pytest.mark.parametrize(
    "name", ["x", "x.txt", ".x.json", "~x.json", "x.json/", "", "runs.jsonl", f"{'x' * 240}.json"]
)
def test_a_name_must_look_like_an_export(lab: Lab, name: str) -> None:
    """Nothing that a shell, an editor or the Lab itself would read can be made."""
    with pytest.raises(InvalidArgument, match="name of an export"):
        lab.export(path=name)


OUTSIDE = [
    "../x.json",
    "a/../../x.json",
    "..",
    "../runs.json",
    "x\0.json",
    "/x.json",
    "/etc/x.json",
    "{base}/outside/x.json",
    "{base}/allowed/../outside/x.json",
    "{base}/allowedx/x.json",
    "{base}/lab/x.json",
    "{base}/lab/sessions/x.json",
    "{base}/lab/exports/../x.json",
    "//{base}/outside/x.json",
    "\ud800.json",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_h12_a_path_cannot_lead_out(lab: Lab, tmp_path: Path, path: str) -> None:
    """`..`, NUL and absolute paths elsewhere are refused alike, and nothing is written."""
    before = everything(tmp_path)
    with pytest.raises(RequestRefused) as raised:
        lab.export(path=path.format(base=tmp_path))
    assert raised.value.code == "FORBIDDEN"
    assert str(tmp_path) not in raised.value.message
    assert everything(tmp_path) == before


LINKS = [
    ("lab/exports/x.json", "outside/x.json", "x.json"),
    ("lab/exports/there", "outside", "there/x.json"),
    ("lab/exports", "outside", "x.json"),
    ("lab/exports", "outside", None),
    ("lab/exports", "gone", None),
    ("lab/exports/x.json", "outside/export.json", "x.json"),
    ("allowed/x.json", "outside/x.json", "{base}/allowed/x.json"),
    ("allowed/x.json", "outside/export.json", "{base}/allowed/x.json"),
    ("allowed/there", "outside", "{base}/allowed/there/x.json"),
    ("allowed/back", "allowed", "{base}/allowed/back/x.json"),
    ("lab/exports/.x.json.tmp", "outside/x.json", "x.json"),
]


@pytest.mark.parametrize(("link", "target", "path"), LINKS)
def test_h12_a_link_cannot_lead_out(
    lab: Lab, tmp_path: Path, link: str, target: str, path: str | None
) -> None:
    """A link in the place of the file, of a directory or of the temporary is refused."""
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / target)
    before = everything(tmp_path)
    with pytest.raises(RequestRefused):
        lab.export(path=path and path.format(base=tmp_path))
    assert everything(tmp_path) == before
    assert (tmp_path / link).is_symlink()


@pytest.mark.parametrize(
    "point", ["atomic.write.after_open", "atomic.write.after_write", "atomic.write.after_sync"]
)
def test_h12_a_directory_swapped_for_a_link_leads_nowhere(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Between the check and the write the directory becomes a link: the file lands in the old."""
    place = tmp_path / "allowed" / "week"
    place.mkdir()
    (tmp_path / "outside" / "x.json").write_text("theirs")

    def swap(name: str) -> None:
        if name == point and not place.is_symlink():
            place.rename(tmp_path / "allowed" / "moved")
            place.symlink_to(tmp_path / "outside")

    monkeypatch.setattr("onceward.journal.atomic_file.crash_point", swap)
    lab.export(path=str(place / "x.json"))
    assert place.is_symlink()
    assert (tmp_path / "outside" / "x.json").read_text() == "theirs"
    assert {*everything(tmp_path / "outside")} == {"export.json", "x.json"}
    assert content(tmp_path / "allowed" / "moved" / "x.json")["schemaVersion"] == 1


def test_h12_a_file_swapped_for_a_link_is_itself_replaced(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that appears after the check is not followed."""
    target, theirs = tmp_path / "allowed" / "x.json", tmp_path / "outside" / "theirs"
    theirs.write_text("theirs")
    swap = {"atomic.write.after_sync": lambda: target.symlink_to(theirs)}
    monkeypatch.setattr(
        "onceward.journal.atomic_file.crash_point", lambda name: swap.get(name, lambda: None)()
    )
    lab.export(path=str(target))
    assert theirs.read_text() == "theirs"
    assert not target.is_symlink()


@pytest.mark.parametrize(
    "point", [each for each in crash_points.POINTS if each.startswith("atomic.")]
)
def test_an_export_is_atomic(lab: Lab, point: str) -> None:
    """A crash in the middle leaves the old export, or the new one."""
    lab.export(path="x.json")
    lab.add_feedback(NewFeedback(notes="more"))
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            lab.export(path="x.json")
    finally:
        crash_points.arm(None)
    held = len(content(lab.paths.exports / "x.json")["feedback"])
    assert held == (1 if point.endswith(("rename", "return")) else 0)
    assert lab.export(path="x.json").count == 1
