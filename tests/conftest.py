"""Shared by all tests: how much of a long proof to run, a Lab and a store of the test's own."""

import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from onceward.testing.postgres import PostgresServer
from tests.support import namespaces
from tests.support import nginx as nginx_module
from tests.support import pgbouncer as pgbouncer_module
from tests.support.evidence import Evidence, Passing
from tests.support.files_in_memory import use_memory
from tests.support.forked_tests import ForkedTests
from tests.support.pgbouncer import PgBouncer

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="run tests in so many processes")
    parser.addoption("--prove", action="store_true", help="run long proofs at full length")
    parser.addoption("--soak", action="store_true", help="run them for hours")
    parser.addoption("--evidence", metavar="DIR", help="write what they saw into this directory")


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption("--evidence")
    if directory:
        config.pluginmanager.register(Passing(Path(directory)), "passing")
    if (workers := config.getoption("--workers")) > 1:
        config.pluginmanager.register(ForkedTests(workers))
    # A proof is one on a disk; other tests would sync a hundred thousand files to it.
    if not (config.getoption("--prove") or config.getoption("--soak")):
        use_memory()
    # A machine that has much else to do makes no example wrong.
    settings.register_profile("patient", settings.default, deadline=None)
    settings.load_profile("patient")
    # Tests start hundreds of Pythons; each would compile all that it imports, for itself alone.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Some start pytest; of what is installed here, its users would have none of these plugins.
    os.environ["PYTEST_ADDOPTS"] = "-p no:schemathesis -p no:hypothesispytest -p no:anyio"
    if sys.version_info < (3, 12):
        # To place carets, a thread that logs a traceback parses its lines, which disturbs whatever
        # else is parsed at that moment (gh-106905): the assertions of a test module, for example.
        traceback._extract_caret_anchors_from_line_segment = lambda _segment: None  # type: ignore[attr-defined]
    # A shell lets what runs in its background ignore Ctrl-C, and every process that we start would.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: Fixtures that need what a machine may not have, and whether this one has it.
SCARCE: dict[str, Callable[[], bool]] = {
    "pgbouncer": lambda: pgbouncer_module.PROGRAM is not None,
    "nginx": lambda: nginx_module.PROGRAM is not None,
    "elsewhere": lambda: namespaces.problem() is None,
    "second_user": lambda: os.geteuid() == 0,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where the machine lacks something, report that as one skipped test, not as dozens."""
    for fixture, is_here in SCARCE.items():
        needing = [item for item in items if fixture in getattr(item, "fixturenames", ())]
        if len(needing) > 1 and not is_here():
            left_out = {id(item) for item in needing[1:]}
            config.hook.pytest_deselected(items=needing[1:])
            items[:] = [item for item in items if id(item) not in left_out]


@pytest.fixture
def second_user() -> None:
    """Only root can act as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as a second local user; fix: run the tests as root")


@pytest.fixture
def nginx() -> str:
    """Return the program."""
    if nginx_module.PROGRAM is None:
        pytest.skip("no nginx, so no server was tested behind a proxy; fix: apt-get install nginx")
    return nginx_module.PROGRAM


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pooler in transaction mode that has few sessions of the server for each database."""
    if pgbouncer_module.PROGRAM is None:
        pytest.skip("no PgBouncer, so nothing was run through one; fix: apt-get install pgbouncer")
    pooler = PgBouncer(postgres_server, pool_size=4)
    yield pooler
    pooler.close()


@pytest.fixture(scope="session")
def elsewhere() -> None:
    """Skip where no process can be run in another namespace or as another user."""
    if (why := namespaces.problem()) is not None:
        pytest.skip(f"nothing was run in other namespaces: {why}")


@pytest.fixture(scope="session")
def prove(pytestconfig: pytest.Config) -> bool:
    """Whether long proofs run at full length."""
    return bool(pytestconfig.getoption("--prove") or pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    """Whether they run for hours."""
    return bool(pytestconfig.getoption("--soak"))


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Evidence:
    """Return where a proof writes down what it saw."""
    directory = request.config.getoption("--evidence")
    file = Path(directory) / f"entries-{os.getpid()}.jsonl" if directory else None
    return Evidence(request.node.nodeid, file)


@pytest.fixture(scope="session", autouse=True)
def _home_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what fixtures of a whole session start out of the user's home, too."""
    with pytest.MonkeyPatch.context() as patch:
        _use_home(patch, tmp_path_factory.getbasetemp() / "elsewhere")
        yield


@pytest.fixture(autouse=True)
def _home_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep every test, and every process that it starts, out of the home of others."""
    _use_home(monkeypatch, tmp_path_factory.getbasetemp() / f"elsewhere-{next(_numbers)}")


def _use_home(patch: pytest.MonkeyPatch, place: Path) -> None:
    """Name a place for Lab and store; not made, since most tests have nothing to do with it."""
    patch.setenv("CM_LAB_ROOT", str(place / "lab"))
    patch.setenv("CM_FEEDBACK_STORE_PATH", str(place / "feedback.jsonl"))
    # Its agents would be run by every `up`.
    patch.setenv("ONCEWARD_HOME", str(place / "home"))
