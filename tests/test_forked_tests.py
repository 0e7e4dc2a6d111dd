"""Forked tests: each test is run once and reported, also when its process dies."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONFTEST = """
from tests.support.forked_tests import ForkedTests

def pytest_configure(config):
    config.pluginmanager.register(ForkedTests(3))
"""
TESTS = """
import os
import pytest
import warnings
from pathlib import Path

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    yield
    (tmp_path_factory.getbasetemp() / "closed").touch()

@pytest.mark.parametrize("n", range(120))
def test_it(n, shared, tmp_path):
    with Path("ran").open("a") as ran:
        ran.write(f"{n}\\n")
    if n == 60:
        os.kill(os.getpid(), 9)
    if n == 70:
        warnings.warn("look")
    assert n != 80
"""


def pytest_in(place: Path, *words: str) -> str:
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    places = ["--rootdir", str(place), "--basetemp", str(place / "t")]
    ran = subprocess.run(
        [*command, *places, *words, str(place)],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def test_every_test_runs_once_although_a_process_dies(tmp_path: Path) -> None:
    """The test that its process died in has failed; another process goes on after it."""
    shown = pytest_in(tmp_path)
    assert "2 failed, 118 passed, 1 warning" in shown
    assert "test_it[60] - a process of tests ended with -9" in shown
    assert "UserWarning: look" in shown
    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(map(int, ran)) == list(range(120))
    # All processes that could end have ended what they shared among their tests.
    assert len(list((tmp_path / "t").glob("worker-*/closed"))) == 3


def test_a_failure_can_end_the_run(tmp_path: Path) -> None:
    """With -x no process begins another test, and all of them end."""
    shown = pytest_in(tmp_path, "-x")
    assert "stopping after 1 failures" in shown
    assert len((tmp_path / "ran").read_text().splitlines()) < 120
