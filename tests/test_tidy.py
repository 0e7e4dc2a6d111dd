"""Tidy: the architecture and the habits of this project, checked."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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
BESIDE = [path for room in ("bench", "docs", "examples") for path in (ROOT / room).rglob("*.py")]
EVERYTHING = [*MODULES, *TESTS, *sorted(BESIDE)]

FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 70
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
    {"access", "handle"},
    {"cursors", "outcomes", "retries", "journal"},
    {"stores"},
    {"logs"},
    {"bells", "keys", "pages", "redirects", "rooted", "secrets"},
    {"crash", "seams"},
    {"errors", "events", "signals", "statuses", "version"},
]
#: The five systems, which look alike: `__init__.py`, `models.py`, `http.py`, a file per verb group.
APPLICATIONS = ["workers", "lab", "orchestrator", "memory", "dispatch"]
#: The truth of a run is files in a workspace; who wants to see it in a browser asks the console.
SERVED_BY_THE_CONSOLE = {"orchestrator"}
#: Doors to time, chance and disk that only seams may open.
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
#: What statements are made of, other than expressions.
BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """A function, as far as anybody here asks."""

    name: str
    lines: int
    has_sentence: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What was seen in a file: its tree is far too large to keep."""

    imported: tuple[str, ...]
    functions: tuple[Function, ...]
    #: Nobody asks an empty file for one.
    has_sentence: bool


@cache
def look(path: Path) -> Looked:
    """Read a file once for all tests."""
    module = tree(path)
    imported: list[str] = []
    functions: list[Function] = []
    for node in statements(module):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            said = bool(ast.get_docstring(node))
            functions.append(Function(name=node.name, lines=lines, has_sentence=said))
    has_sentence = not module.body or bool(ast.get_docstring(module))
    return Looked(imported=tuple(imported), functions=tuple(functions), has_sentence=has_sentence)


def statements(module: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement, however deep, and no expression: there are many more of those."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, BLOCKS)]


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def floor(of: str) -> int:
    return next(level for level, rooms in enumerate(FLOORS) if of in rooms)


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def climbs(path: Path) -> Iterator[str]:
    """Yield what a module imports from beside or above its room."""
    own = room(path)
    for target in look(path).imported:
        parts = target.split(".")
        if parts[0] != "onceward" or len(parts) < 2 or parts[1] in (own, "__version__"):
            continue
        if floor(parts[1]) <= floor(own):
            yield f"{name(path)} imports {target}"


def test_arrows_point_down() -> None:
    """A room imports from the rooms below it, and the applications never from one another."""
    inside = [path for path in MODULES if path != SOURCE / "__init__.py"]
    assert not [climb for path in inside for climb in climbs(path)]


def called(node: ast.Call) -> str:
    """Return the name under which something is called; of a result or an item its last part."""
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([function.id if isinstance(function, ast.Name) else "", *reversed(parts)])


def touches(path: Path) -> Iterator[str]:
    """Yield what a module does that only seams may."""
    taken = FORBIDDEN_IMPORTS & {target.split(".")[0] for target in look(path).imported}
    if taken and room(path) != "testing":
        yield f"{name(path)} imports {taken}"
    for node in calls(path):
        call, where = called(node), f"{name(path)}:{node.lineno}"
        last = call.rpartition(".")[2]
        if call in FORBIDDEN_CALLS or last in FORBIDDEN_METHODS:
            yield f"{where} calls {call}"
        if last == "open":
            modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if any(isinstance(mode, str) and WRITING_MODES.search(mode) for mode in modes):
                yield f"{where} opens for writing"


def test_only_seams_touch_time_chance_and_disk() -> None:
    """Whoever needs the clock, an id, chance or a file takes a seam as an argument."""
    others = [path for path in MODULES if room(path) != "seams"]
    assert not [touch for path in others for touch in touches(path)]


def sizes(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield how many lines a file and its functions have, and how many they may have."""
    yield name(path), len(path.read_text().splitlines()), FILE_LINES_MAX
    for function in look(path).functions:
        yield f"{name(path)}: {function.name}", function.lines, FUNCTION_LINES_MAX


def test_files_and_functions_stay_small() -> None:
    """A file of more than 400 lines, or a function of more than 70, is two things."""
    found = [size for path in EVERYTHING for size in sizes(path)]
    assert not [(what, lines) for what, lines, most in found if lines > most]


#: Before Python 3.11.5 such a repeat finds something else; an atomic group does not.
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")


def test_patterns_find_the_same_on_every_python() -> None:
    """A key made by one Python must be the key that another makes."""
    calls = [
        (name(path), ast.unparse(node))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
    ]
    assert len(calls) > 50
    assert not [each for each in calls if POSSESSIVE_GROUP.search(each[1])]


def test_modules_say_what_they_are() -> None:
    """Every module opens with a sentence."""
    assert not [name(path) for path in EVERYTHING if not look(path).has_sentence]


def test_tests_say_what_they_defend() -> None:
    """Every test has one sentence that states a behaviour."""
    found = [(name(path), function) for path in TESTS for function in look(path).functions]
    tests = [(path, function) for path, function in found if function.name.startswith("test_")]
    assert not [(path, function.name) for path, function in tests if not function.has_sentence]


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


@pytest.mark.parametrize("application", APPLICATIONS)
def test_applications_are_siblings(application: str) -> None:
    """Whoever knows the rooms of one knows those of all: public names, models, what is served."""
    place = SOURCE / application
    public = [node for node in tree(place / "__init__.py").body if isinstance(node, ast.Assign)]
    assert public, "it has no public names"
    assert (place / "http.py").is_file() or application in SERVED_BY_THE_CONSOLE
    for node in tree(place / "models.py").body:
        if isinstance(node, ast.ClassDef):
            how = [*node.decorator_list, *node.bases]
            kinds = " ".join(ast.unparse(each) for each in how)
            assert "frozen=True" in kinds or "Enum" in kinds, f"{node.name} can be changed"


def crash_point_calls() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in calls(path):
            if called(node).endswith("crash_point"):
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), f"{name(path)}:{node.lineno}"
                found.setdefault(str(argument.value), []).append(f"{name(path)}:{node.lineno}")
    return found


def test_every_crash_point_is_registered_and_used() -> None:
    """The registry and the code name the same points; each stands in one place."""
    calls = crash_point_calls()
    assert set(calls) == set(crash.POINTS)
    assert all(len(places) == 1 for places in calls.values()), calls


def test_every_crash_point_is_reached_by_a_test() -> None:
    """A point without a scenario in a crash matrix would never be killed at."""
    matrices = (
        *(alert_matrix, console_matrix, crash_matrix, dispatch_matrix, lab_matrix, lease_matrix),
        *(memory_matrix, orchestrator_matrix, outcome_matrix, retries_matrix, worker_matrix),
    )
    prefixes = tuple(prefix for matrix in matrices for prefix in matrix.SCENARIOS)
    assert not [point for point in crash.POINTS if not point.startswith(prefixes)]
    assert not [point for point, states in crash.POINTS.items() if " | " not in states]


def test_pinned_versions_record_no_addresses() -> None:
    """The constraints file holds names and versions only."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+]+", line), line
