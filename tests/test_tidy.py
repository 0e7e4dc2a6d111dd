"""Tidy: the architecture and the habits of this project, checked."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import crash
from tests.system import (
    alert_matrix,
    console_matrix,
    crash_matrix,
    dispatch_matrix,
    lab_matrix,
    lease_matrix,
    memory_matrix,
    orchestrator_matrix,
    outcome_matrix,
    retries_matrix,
    worker_matrix,
)

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "onceward"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
EVERYTHING = [*MODULES, *TESTS, *sorted((ROOT / "bench").rglob("*.py"))]

FILE_LINES_WARN, FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 600, 70
#: Which way the arrows point: a room imports from rooms further down, never from beside or above.
FLOORS = [
    {"__main__"},
    {"cli"},
    {"demo"},
    {"testing"},
    {"console"},
    {"workers", "lab", "orchestrator", "memory", "dispatch"},
    {"failures"},
    {"agents", "doctor", "gate"},
    {"handle"},
    {"cursors", "outcomes", "retries", "journal"},
    {"stores"},
    {"logs"},
    {"bells", "keys", "pages", "rooted", "secrets"},
    {"crash", "seams"},
    {"errors", "version"},
]
#: Doors to time, chance and disk that only seams.py may open.
FORBIDDEN_CALLS = {
    "time.time",
    "time.sleep",
    "time.monotonic",
    "time.perf_counter",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "date.today",
    "uuid.uuid4",
    "uuid.uuid1",
    "uuid4",
    "os.fsync",
    "os.fdatasync",
    "os.urandom",
    "os.write",
    "os.rename",
    "os.replace",
    "os.unlink",
}
FORBIDDEN_IMPORTS = {"random", "secrets", "pickle"}
FORBIDDEN_METHODS = {"write_text", "write_bytes"}
WRITING_MODES = re.compile(r"[wax+]")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def floor(of: str) -> int:
    return next(level for level, rooms in enumerate(FLOORS) if of in rooms)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_arrows_point_down(path: Path) -> None:
    """A room imports from the rooms below it, and the applications never from one another."""
    if path == SOURCE / "__init__.py":
        return
    own = room(path)
    for target in imported(path):
        parts = target.split(".")
        if parts[0] != "onceward" or len(parts) < 2 or parts[1] in (own, "__version__"):
            continue
        assert floor(parts[1]) > floor(own), f"{own} imports {target}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_seams_touch_time_chance_and_disk(path: Path) -> None:
    """Whoever needs the clock, an id, chance or a file takes a seam as an argument."""
    if path.name == "seams.py":
        return
    assert not FORBIDDEN_IMPORTS & {target.split(".")[0] for target in imported(path)} or (
        room(path) == "testing"
    )
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        assert called not in FORBIDDEN_CALLS, f"line {node.lineno}: {called}"
        assert called.rpartition(".")[2] not in FORBIDDEN_METHODS, f"line {node.lineno}: {called}"
        if called == "open" or called.endswith(".open"):
            modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
            assert not any(isinstance(m, str) and WRITING_MODES.search(m) for m in modes), (
                f"line {node.lineno}: opens for writing"
            )


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", EVERYTHING, ids=name)
def test_files_and_functions_stay_small(path: Path) -> None:
    """A file of 600 lines or a function of 70 is two things; 400 lines is a warning."""
    lines = len(path.read_text().splitlines())
    assert lines <= FILE_LINES_MAX
    if lines > FILE_LINES_WARN:
        warnings.warn(f"{name(path)} has {lines} lines", stacklevel=1)
    for function in functions(path):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= FUNCTION_LINES_MAX, f"{function.name} has {length} lines"


@pytest.mark.parametrize("path", EVERYTHING, ids=name)
def test_modules_say_what_they_are(path: Path) -> None:
    """Every module opens with a sentence."""
    if path.read_text().strip():
        assert ast.get_docstring(tree(path))


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_tests_say_what_they_defend(path: Path) -> None:
    """Every test has one sentence that states a behaviour."""
    for function in functions(path):
        if function.name.startswith("test_"):
            assert ast.get_docstring(function), function.name


#: The first door loads lazily, which takes a function.
DOORS = [path for path in sorted(SOURCE.rglob("__init__.py")) if path.parent != SOURCE]


@pytest.mark.parametrize("path", DOORS, ids=name)
def test_doors_only_re_export(path: Path) -> None:
    """An `__init__.py` holds imports and a sorted `__all__` of what it imports, nothing else."""
    body = tree(path).body[1:]
    exported: list[str] = []
    given: list[str] = []
    for node in body:
        if isinstance(node, ast.ImportFrom):
            given += [alias.asname or alias.name for alias in node.names]
        else:
            assert isinstance(node, ast.Assign), ast.unparse(node)
            assert ast.unparse(node.targets[0]) == "__all__"
            exported = ast.literal_eval(node.value)
    assert sorted(exported) == sorted(given)
    by_kind = sorted(exported, key=lambda each: (not each.isupper(), each.islower(), each))
    assert exported in (sorted(exported), by_kind)


def crash_point_calls() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("crash_point"):
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), f"{name(path)}:{node.lineno}"
                found.setdefault(str(argument.value), []).append(f"{name(path)}:{node.lineno}")
    return found


def test_every_crash_point_is_registered_and_used() -> None:
    """The registry and the code name the same points; each stands in one place."""
    calls = crash_point_calls()
    assert set(calls) == set(crash.POINTS)
    assert all(len(places) == 1 for places in calls.values()), calls


@pytest.mark.parametrize("point", crash.POINTS)
def test_every_crash_point_is_reached_by_a_test(point: str) -> None:
    """A point without a scenario in a crash matrix would never be killed at."""
    matrices = (
        *(alert_matrix, console_matrix, crash_matrix, dispatch_matrix, lab_matrix, lease_matrix),
        *(memory_matrix, orchestrator_matrix, outcome_matrix, retries_matrix, worker_matrix),
    )
    prefixes = [prefix for matrix in matrices for prefix in matrix.SCENARIOS]
    assert any(point.startswith(prefix) for prefix in prefixes)
    assert " | " in crash.POINTS[point]


def test_pinned_versions_record_no_addresses() -> None:
    """The constraints file holds names and versions only."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+]+", line), line
