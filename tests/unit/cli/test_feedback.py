"""`onceward feedback`."""

import json
import threading
from pathlib import Path

import pytest

from onceward.cli import feedback
from onceward.journal import Journal
from onceward.lab import Lab
from tests.support.command_runner import Run
from tests.support.labs import make_lab, make_run


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The feedback file, in a Lab of its own."""
    monkeypatch.setenv("CM_LAB_ROOT", str(tmp_path / "lab"))
    found = tmp_path / "feedback" / "feedback.jsonl"
    monkeypatch.setenv("CM_FEEDBACK_STORE_PATH", str(found))
    return found


@pytest.fixture
def lab(path: Path) -> Lab:
    """A Lab on the same files, as a server has one."""
    return make_lab(path.parent.parent)


def fill(path: Path, count: int, **fields: object) -> None:
    entries = [
        {"id": f"fb_{n}", "createdAt": "2026-01-01T00:00:00.000Z", **fields} for n in range(count)
    ]
    Journal(path).append(*entries)


def test_add_writes_the_entry_that_a_server_would(
    run: Run, path: Path, lab: Lab, tmp_path: Path
) -> None:
    """All that can be said arrives, with the run's topic and its metrics as they are now."""
    run_id = lab.import_run(str(make_run(tmp_path, score={"overall": 0.5}))).run_id
    words = ["--run", run_id, "--rating", "overall=80", "--rating", "hook=0", "--notes", "fine"]
    more = ["--tag", "a", "--tag", "b", "--answer", "q1=a=b", "--session", "lab_agent"]
    ran = run("feedback", "add", *words, *more, "--json")
    (entry,) = Journal(path).read().items
    assert ran.json == {"feedbackId": entry["id"], "replayed": False}
    assert (entry["runId"], entry["topic"], entry["sessionId"]) == (run_id, "cats", "lab_agent")
    assert entry["ratings"] == {"overall": 80, "hook": 0}
    assert (entry["notes"], entry["tags"], entry["answers"]) == ("fine", ["a", "b"], {"q1": "a=b"})
    assert entry["autoMetricsSnapshot"] == {"proxyScoreOverall": 50.0}


def test_add_prints_the_id(run: Run, path: Path) -> None:
    """Entries from terminals share a session of their own."""
    first = run("feedback", "add", "--topic", "cats", "--notes", "fine").out.strip()
    second = run("feedback", "add", "--notes", "bad").out.strip()
    entries = Journal(path).read().items
    assert [entry["id"] for entry in entries] == [first, second]
    assert {entry["sessionId"] for entry in entries} == {"terminal"}
    assert entries[0]["topic"] == "cats"


def test_a_request_id_adds_once(run: Run, path: Path) -> None:
    """A repeat gets the same id and adds nothing; the id with other words is refused."""
    words = ["feedback", "add", "--notes", "fine", "--request-id", "r1", "--json"]
    first, second = run(*words), run(*words)
    assert first.json["feedbackId"] == second.json["feedbackId"]
    assert (first.json["replayed"], second.json["replayed"]) == (False, True)
    assert len(Journal(path).read().items) == 1
    ran = run("feedback", "add", "--notes", "other", "--request-id", "r1")
    assert ran.code == 1
    assert "was used for another request" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the judgement is empty"),
        (["--notes", " "], "the judgement is empty"),
        (["--rating", "overall"], "must have the form NAME=VALUE"),
        (["--rating", "overall=high"], "must be a number from 0 to 100"),
        (["--rating", "overall=101"], "ratings.overall"),
        (["--rating", "beauty=1"], "ratings.beauty"),
        (["--rating", "overall=80", "--rating", "overall=90"], "'overall' is passed twice"),
        (["--answer", "q1=a", "--answer", "q1=a"], "'q1' is passed twice"),
        (["--answer", "=yes"], "must have the form NAME=VALUE"),
        (["--notes", "x", "--session", "../x"], "not a valid session id"),
        (["--notes", "x", "--request-id", ""], "requestId"),
    ],
)
def test_bad_entries_are_refused(run: Run, path: Path, words: list[str], says: str) -> None:
    """Exit 2 with what to do, and nothing is written."""
    ran = run("feedback", "add", *words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert "fix: " in ran.err
    assert not path.exists()


def test_an_unknown_run_is_refused(run: Run, path: Path) -> None:
    """Exit 1: the words were fine, but there is no such run."""
    ran = run("feedback", "add", "--run", "run_1", "--notes", "x")
    assert ran.code == 1
    assert "there is no run 'run_1'" in ran.err
    assert not path.exists()


def test_list_shows_the_newest_first(run: Run, path: Path) -> None:
    """So many as asked for; with --json an entry a line, for people a table."""
    assert run("feedback", "list").out == "no entries\n"
    assert run("feedback", "list", "--json").out == ""
    fill(path, 30, notes="n" * 100, ratings={"overall": 7}, tags=["t1"])
    found = [json.loads(line) for line in run("feedback", "list", "--json").out.splitlines()]
    assert [entry["id"] for entry in found] == [f"fb_{n}" for n in range(29, 9, -1)]
    shown = run("feedback", "list", "--limit", "2").out
    assert "fb_29" in shown
    assert "fb_28" in shown
    assert "fb_27" not in shown
    assert "t1" in shown


def test_list_filters(run: Run, path: Path) -> None:
    """By session, run, experiment and tag, all of them together."""
    fields: list[dict[str, object]] = [
        {"sessionId": "s"},
        {"runId": "r"},
        {"experimentId": "e"},
        {"tags": ["t", "u"]},
    ]
    for place, each in enumerate(fields):
        entry = {"id": f"fb_{place}", "createdAt": "2026-01-01T00:00:00.000Z", **each}
        Journal(path).append(entry, {**entry, "id": f"fb_both_{place}", "topic": "x", "runId": "r"})

    def listed(*words: str) -> list[str]:
        lines = run("feedback", "list", "--json", *words).out.splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert listed("--session", "s") == ["fb_both_0", "fb_0"]
    assert listed("--session", "s", "--run", "r") == ["fb_both_0"]
    assert listed("--experiment", "e") == ["fb_both_2", "fb_2"]
    assert listed("--tag", "u") == ["fb_both_3", "fb_3"]
    assert listed("--tag", "u", "--run", "r") == ["fb_both_3"]
    assert listed("--tag", "nope") == []


def test_list_reads_the_end_of_a_long_file_only(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes back as far as it takes, not to the beginning."""
    monkeypatch.setattr(feedback, "_LIST_BYTES", 4096)
    fill(path, 2000)
    read: list[int] = []
    journal_read = Journal.read

    def counted(self: Journal, since: str, *more: object, **options: object) -> object:
        read.append(int(since))
        return journal_read(self, since, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Journal, "read", counted)
    lines = run("feedback", "list", "--json", "--limit", "3").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["fb_1999", "fb_1998", "fb_1997"]
    assert min(read) > path.stat().st_size - 5000
    lines = run("feedback", "list", "--json", "--limit", "1999").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"fb_{n}" for n in range(1999, 0, -1)]


def test_export_writes_where_the_user_may(
    run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to the working directory, or into the Lab's exports when no path is given."""
    fill(path, 2, sessionId="s")
    fill(path, 1)
    monkeypatch.chdir(tmp_path)
    assert run("feedback", "export", "all.json", "--json").json == {
        "path": str(tmp_path / "all.json"),
        "count": 3,
    }
    ran = run("feedback", "export", "--session", "s")
    assert ran.out.startswith(f"2 feedback entries in {tmp_path / 'lab' / 'exports' / 'lab-'}")
    assert run("feedback", "export", str(tmp_path / "all.json")).code == 0  # It is an export.


def test_export_replaces_nothing_else(run: Run, path: Path, tmp_path: Path) -> None:
    """A file that is no export, a link, and a directory that is not there are refused."""
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "mine.json")
    fill(path, 1)
    for name, code in (("mine.json", 1), ("link.json", 1), ("no/x.json", 2), ("x.txt", 2)):
        ran = run("feedback", "export", str(tmp_path / name))
        assert (ran.code, ran.out) == (code, "")
        assert "fix: " in ran.err
    assert (tmp_path / "mine.json").read_text() == "{}"


def test_poll_is_the_journals(run: Run, path: Path) -> None:
    """The cursor and the fingerprint of one answer go into the next question."""
    assert run("feedback", "poll", "--json").json == {
        "items": [],
        "nextCursor": "0",
        "fingerprint": "0",
    }
    fill(path, 3, sessionId="s")
    fill(path, 1)
    page = run("feedback", "poll", "--limit", "2", "--json").json
    assert [entry["id"] for entry in page["items"]] == ["fb_0", "fb_1"]
    words = ["--since", page["nextCursor"], "--fingerprint", page["fingerprint"]]
    ran = run("feedback", "poll", "--session", "s", *words)
    assert json.loads(ran.out)["id"] == "fb_2"
    assert ran.err == f"next cursor: {path.stat().st_size}\n"
    path.write_bytes(b'{"id":"x","createdAt":"y"}\n' * 30)
    ran = run("feedback", "poll", *words, "--json")
    assert ran.code == 2
    assert json.loads(ran.err)["error"]["code"] == "INVALID_CURSOR"


def test_a_deeply_nested_line_breaks_no_command(run: Run, path: Path) -> None:
    """What the journal reads, every command prints as it stands."""
    nested = '{"a":' * 900 + "1" + "}" * 900
    deep, plain = (
        '{"id":"fb_1","createdAt":"x","e":' + nested + "}",
        '{"id":"fb_2","createdAt":"x"}',
    )
    path.parent.mkdir()
    path.write_text(f"{deep}\n{plain}\n")
    assert run("feedback", "list", "--json").out == f"{plain}\n{deep}\n"
    assert run("feedback", "poll").out == f"{deep}\n{plain}\n"
    assert f'{{"items":[{deep},{plain}],' in run("feedback", "poll", "--json").out
    assert run("feedback", "wait", "--timeout", "1").out == f"{deep}\n"
    assert run("feedback", "export", "--json").json["count"] == 2


def test_wait_gives_the_first_entry_that_matches(run: Run, path: Path) -> None:
    """What is there already counts, unless only new ones are wanted."""
    fill(path, 2, runId="run_1")
    ran = run("feedback", "wait", "--run", "run_1", "--json")
    assert [entry["id"] for entry in ran.json["items"]] == ["fb_0"]
    words = ["--since", ran.json["nextCursor"], "--fingerprint", ran.json["fingerprint"]]
    assert json.loads(run("feedback", "wait", *words).out)["id"] == "fb_1"


@pytest.mark.parametrize("since", ["0", "end"])
def test_wait_gives_up_in_time(run: Run, path: Path, since: str) -> None:
    """Exit 1, with the cursor to go on from."""
    fill(path, 2, runId="run_1")
    words = ["--session", "s", "--since", since, "--timeout", "0.05"]
    ran = run("feedback", "wait", *words)
    assert (ran.code, ran.out) == (1, "")
    assert "no entry matched within 0.05 seconds" in ran.err
    assert f"--since {path.stat().st_size}" in ran.err


def test_wait_for_new_ones_takes_no_fingerprint(run: Run) -> None:
    """It would not be checked, so it is rejected."""
    ran = run("feedback", "wait", "--since", "end", "--fingerprint", "1.2", "--timeout", "0")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: fingerprint: belongs to a cursor")


def test_wait_wakes_on_an_append(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It blocks until there is an entry that matches."""
    fill(path, 1, experimentId="exp_0")
    looked = threading.Event()
    journal_read = Journal.read

    def read(self: Journal, *arguments: object) -> object:
        page = journal_read(self, *arguments)  # type: ignore[arg-type]
        looked.set()
        return page

    def append() -> None:
        looked.wait()
        fill(path, 1, experimentId="exp_1")

    monkeypatch.setattr(Journal, "read", read)
    thread = threading.Thread(target=append)
    thread.start()
    ran = run("feedback", "wait", "--experiment", "exp_1")
    thread.join()
    assert ran.code == 0
    assert json.loads(ran.out)["experimentId"] == "exp_1"


# --- the words of the original command ------------------------------------------------------------


def test_add_takes_the_path_of_a_run_and_ratings_by_name(
    run: Run, path: Path, lab: Lab, tmp_path: Path
) -> None:
    """The run is imported if it is not one yet; a rating is read as everywhere else."""
    place = make_run(tmp_path)
    words = [
        "feedback",
        "add",
        str(place),
        "--overall",
        "80",
        "--sync",
        "70.5",
        "--request-id",
        "r",
    ]
    assert run(*words).out == run(*words).out
    (entry,) = Journal(path).read().items
    assert entry["runId"] == lab.import_run(str(place)).run_id
    assert entry["ratings"] == {"overall": 80, "sync": 71}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--overall", "high"], "ratings.overall: must be a number from 0 to 100"),
        (["--overall", "80", "--rating", "overall=90"], "'overall' is passed twice"),
        ([], "the judgement is empty"),
        (["--overall", "80", "--run", "run_1"], "exclude each other"),
    ],
)
def test_add_with_a_path_refuses_what_it_refuses_without(
    run: Run, path: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    """Exit 2; neither an entry nor a run is written."""
    ran = run("feedback", "add", str(make_run(tmp_path)), *words)
    assert ran.code == 2
    assert says in ran.err
    assert not path.exists()
    assert not (tmp_path / "lab" / "runs.jsonl").exists()


def test_export_takes_its_file_as_an_option(run: Run, path: Path, tmp_path: Path) -> None:
    """`-o` and the argument are the same; both at once are one too many."""
    fill(path, 2)
    target = tmp_path / "out.json"
    ran = run("feedback", "export", "-o", str(target), "--json")
    assert ran.json == {"path": str(target), "count": 2}
    ran = run("feedback", "export", str(target), "--output", str(tmp_path / "other.json"))
    assert ran.code == 2
    assert "exclude each other" in ran.err
    assert not (tmp_path / "other.json").exists()
