"""`onceward db`."""

import sys
from pathlib import Path

import pytest

from onceward.stores import open_store
from onceward.stores.queries import migrations
from tests.support.command_runner import Run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


def test_migrate_status_check(run: Run, url: str) -> None:
    """A new store lacks its migrations, then is up to date, then healthy."""
    numbers = [number for number, _, _ in migrations("sqlite")]
    Path(url.removeprefix("sqlite:///")).touch()
    before = run("db", "status", "--store", url, "--json")
    assert (before.code, before.json["pending"]) == (1, numbers)
    assert run("db", "migrate", "--store", url, "--json").json["applied"] == numbers
    assert run("db", "migrate", "--store", url).out == "no pending migrations\n"
    assert run("db", "status", "--store", url).code == 0
    assert run("db", "check", "--store", url).out == "ok\n"


def test_prepare_says_that_there_is_nothing_to_prepare(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app whose sources need no tables is no error, and the command is not silent."""
    (tmp_path / "list_shop.py").write_text(
        "import onceward\nfrom tests.support.list_source import ListSource\n"
        f"app = onceward.App(onceward.open({url!r}))\n"
        "app.consumer('numbers', source=ListSource(1))(print)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "list_shop", raising=False)
    ran = run("db", "prepare", "list_shop:app")
    assert (ran.code, ran.out) == (0, "nothing to prepare: no consumer reads a table\n")


def test_the_store_comes_from_the_environment(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --store, ONCEWARD_STORE names it."""
    monkeypatch.setenv("ONCEWARD_STORE", url)
    assert run("db", "migrate").code == 0
    assert run("db", "status", "--json").json["url"].endswith("/work.db")


def test_a_newer_store_is_reported(run: Run, url: str) -> None:
    """What another version made is named, and nothing is changed."""
    run("db", "migrate", "--store", url)
    store = open_store(url)
    store.write(lambda tx: tx.query("note_migration", number=999, name="later"))
    assert "applied by a newer Onceward" in run("db", "status", "--store", url).out
    ran = run("db", "migrate", "--store", url)
    assert ran.code == 1
    assert "fix: install the version" in ran.err


@pytest.mark.parametrize("command", ["status", "check"])
def test_read_only_commands_make_no_store(run: Run, url: str, command: str, tmp_path: Path) -> None:
    """A mistyped path is reported, and no empty store is made that would be found healthy."""
    ran = run("db", command, "--store", url)
    assert (ran.code, "fix: check the path" in ran.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["migrate", "status", "check"])
def test_a_bad_url_is_reported(run: Run, command: str) -> None:
    """A store of an unknown kind is bad input."""
    ran = run("db", command, "--store", "mysql://x")
    assert ran.code == 2
    assert ran.err.startswith("error: url: ")


def test_an_unknown_option_is_reported(run: Run) -> None:
    """What libpq does not take is bad input."""
    ran = run("db", "status", "--store", "postgresql://localhost/work?pool_size=5")
    assert ran.code == 2
    assert "pool_size" in ran.err


def test_a_file_that_is_no_database_is_reported(run: Run, tmp_path: Path) -> None:
    """Something else in the file's place is an error without a trace."""
    path = tmp_path / "note.txt"
    path.write_text("this is not a database, but it is long enough to look like one\n" * 20)
    ran = run("db", "check", "--store", f"sqlite:///{path}")
    assert ran.code == 1
    assert "not a database" in ran.err
