"""The doctor: what is found on this machine, and what is said where something is missing."""

import resource
import socket
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from onceward import doctor
from onceward.doctor import Check, examine_installation, examine_machine, examine_url
from onceward.doctor.directories import kind_of_mount
from onceward.doctor.machine import _home
from tests.support.command_runner import Run

MOUNTS = r"""
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /tmp rw shared:2 - tmpfs tmpfs rw
23 21 0:21 / /home\040of\040all rw shared:3 - nfs4 server:/export rw
24 21 0:22 / /twice rw - tmpfs tmpfs rw
25 21 0:23 / /twice rw - xfs /dev/vdb rw
no mount at all
"""


def found(checks: list[Check], name: str) -> Check:
    (check,) = [each for each in checks if each.name == name]
    return check


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own, with a shell and nothing on the PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("ONCEWARD_STORE", raising=False)
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def program(home: Path, name: str) -> Path:
    """Put a program on the PATH."""
    path = home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_this_machine_is_fit(run: Run) -> None:
    """Every check is listed; a machine that runs the tests passes."""
    ran = run("doctor", "--json")
    assert ran.code == 0
    names = {check["name"] for check in ran.json["checks"]}
    assert names >= {"python", "sqlite", "disk", "filesystem", "fsync", "permissions", "clock"}
    assert names >= {"open files", "port", "packages", "postgres", "mcp", "pages", "agents"}
    assert names >= {"command", "store"}
    assert ran.json["ok"]


@pytest.mark.usefixtures("home")
def test_every_check_says_why_and_what_is_wrong_says_what_to_do(run: Run) -> None:
    """A line each; below what is not ok, why it matters and the fix; last the verdict."""
    for check in run("doctor", "--json").json["checks"]:
        assert check["why"], check
        assert bool(check["fix"]) is (check["status"] != "ok"), check
    *lines, verdict = run("doctor").out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note", "warn", "fail", "why:", "fix:"}
    assert verdict.startswith("fit")


def test_the_doctor_creates_no_files(run: Run, home: Path) -> None:
    """A read-only command makes neither a home nor a store."""
    assert "does not exist yet" in run("doctor").out
    assert list(home.iterdir()) == []


def test_a_home_that_cannot_be_written_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be written fails, with what to do."""
    monkeypatch.setenv("ONCEWARD_HOME", "/proc/nowhere")
    ran = run("doctor")
    assert ran.code == 1
    assert "fix: set ONCEWARD_HOME" in ran.out
    assert "not fit: 1 of " in ran.out


def test_a_home_below_a_file_fails(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot exist is a finding of each check, and never a traceback."""
    (home / "file").write_text("")
    monkeypatch.setenv("ONCEWARD_HOME", str(home / "file" / "state"))
    ran = run("doctor", "--json")
    assert ran.code == 1
    failed = [check for check in ran.json["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["disk", "permissions", "store"]
    assert all("not a directory" in check["detail"] for check in failed)
    assert all("ONCEWARD_HOME" in check["fix"] for check in failed)


def test_a_home_that_may_not_be_entered_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal is a finding, also in checks of a server's home."""

    def refused(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(Path, "lstat", refused)
    checks = [*_home(), *examine_url(f"sqlite:///{home / 'a.db'}")]
    assert {check.name for check in checks} == {"disk", "permissions", "store"}
    assert {check.status for check in checks} == {"fail"}
    assert all("permission denied" in check.detail for check in checks)


def test_a_port_that_is_taken_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of ours may be there, and the next one takes another port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(doctor.machine, "DEFAULT_PORT", taken.getsockname()[1])
        assert found(examine_machine(), "port").status == "note"


def test_an_old_sqlite_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SQLite whose SQL is not enough fails."""
    monkeypatch.setattr(doctor.machine, "SQLITE_VERSION_MIN", (99, 0, 0))
    ran = run("doctor")
    assert ran.code == 1
    assert "Onceward needs SQLite 99.0.0 or newer" in ran.out


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
    ],
)
def test_a_sqlite_that_may_lose_commits_of_others_is_noted(
    run: Run, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], is_safe: bool
) -> None:
    """Where another program's checkpoint may lose a commit, the doctor says so without failing."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    ran = run("doctor")
    assert ran.code == 0
    assert ("sqlite writers" in ran.out) is not is_safe


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/tmp/x", "tmpfs"),
        ("/tmpx", "ext4"),
        ("/home of all/ann", "nfs4"),
        ("/twice", "xfs"),
    ],
)
def test_the_mount_of_a_place_is_found(place: str, kind: str) -> None:
    """The nearest mount counts, and of two at one point the one on top."""
    assert kind_of_mount(Path(place), MOUNTS) == kind
    assert kind_of_mount(Path(place), "") == "unknown"


@pytest.mark.parametrize(
    ("kind", "status", "says"),
    [
        ("ext4", "ok", ""),
        ("tmpfs", "warn", "restart"),
        ("nfs4", "warn", "PostgreSQL"),
    ],
)
def test_a_disk_that_cannot_keep_promises_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, status: str, says: str
) -> None:
    """Memory is gone at a restart, and SQLite does not share a file across a network."""
    (tmp_path / "mounts").write_text(f"21 1 254:0 / / rw - {kind} /dev/vda rw\n")
    monkeypatch.setattr(doctor.directories, "MOUNTS", tmp_path / "mounts")
    check = found(examine_machine(), "filesystem")
    assert check.status == status
    assert says in check.why + check.fix


@pytest.mark.parametrize(
    ("limits", "status", "says"),
    [
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), "ok", ""),
        ((256, 4_096), "warn", "ulimit -n 1024"),
        ((256, 256), "warn", "as root"),
    ],
)
def test_a_low_limit_of_open_files_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], status: str, says: str
) -> None:
    """Agents and pages run out of files before anything else."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    check = found(examine_machine(), "open files")
    assert (check.status, says in check.fix) == (status, True)


# --- what is installed --------------------------------------------------------------------------


def test_optional_things_that_are_missing_are_notes(home: Path) -> None:
    """No agent, no completion and no command on the PATH: worth a word, and no warning."""
    checks = examine_installation()
    for name in ("agents", "completion", "command"):
        assert found(checks, name).status == "note"
    program(home, "codex")
    (home / ".bash_completions").mkdir()
    (home / ".bash_completions" / "onceward.sh").write_text("")
    checks = examine_installation()
    assert found(checks, "agents").detail == "codex"
    assert found(checks, "completion").status == "ok"


def test_another_onceward_that_comes_first_is_reported(home: Path) -> None:
    """`onceward` by name may start another installation than this one."""
    other = program(home, "onceward")
    check = found(examine_installation(), "command")
    assert (check.status, str(other) in check.detail) == ("note", True)


@pytest.mark.usefixtures("home")
def test_a_shell_that_cannot_complete_gets_no_note_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Completion that the shell cannot have is not reported as missing."""
    monkeypatch.setenv("SHELL", "/bin/dash")
    assert "completion" not in {check.name for check in examine_installation()}


def test_pages_that_were_not_built_are_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console without pages is a plain page, and breaks no promise."""
    monkeypatch.setattr(doctor.installation, "files", lambda _: tmp_path)
    check = found(examine_installation(), "pages")
    assert (check.status, "make web" in check.fix) == ("note", True)


def test_a_package_that_is_missing_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was not installed, or was removed, is named."""

    def incomplete(name: str) -> str:
        if name == "mcp":
            raise PackageNotFoundError
        return version(name)

    monkeypatch.setattr(doctor.installation, "version", incomplete)
    ran = run("doctor", "--json")
    assert ran.code == 1
    (check,) = [each for each in ran.json["checks"] if each["name"] == "packages"]
    assert check["fix"].endswith("-m pip install mcp")


def test_a_missing_driver_is_reported_where_it_is_needed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without psycopg a PostgreSQL store is refused with what to install; SQLite is not."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "onceward.stores.postgres.store", raising=False)
    ran = run("doctor")
    assert ran.code == 0
    assert "note  postgres" in ran.out
    url = "postgresql://localhost/work"
    ran = run("doctor", "--store", url)
    assert ran.code == 1
    assert "fix: pip install 'onceward[postgres]'" in ran.out
    ran = run("db", "status", "--store", url)
    assert ran.code == 2
    assert "pip install 'onceward[postgres]'" in ran.err
