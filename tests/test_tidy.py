"""Tidy: checks the layers of the architecture and the conventions of this project."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.system import crash_points
from tests.support.crash_scenarios import (
    alerts,
    console,
    dispatch,
    files,
    lab,
    leases,
    memory,
    orchestrator,
    outcomes,
    retries,
    workers,
)
from tests.support.source_facts import ROOT, SOURCE, hurried_assertions, summary, tree

MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OTHERS = [path for tree in ("bench", "docs", "examples") for path in (ROOT / tree).rglob("*.py")]
EVERYTHING = [*MODULES, *TESTS, *sorted(OTHERS)]

FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 70
#: A package imports from layers further down, never from layers above.
LAYERS = [
    {"__main__", "cli", "console", "demo", "testing"},
    {"workers", "lab", "orchestrator", "memory", "dispatch"},
    {"agents", "http", "client", "doctor"},
    {"outcomes", "cursors", "retries", "journal"},
    {"stores"},
    {"keys", "system", "errors", "version"},
]
#: Which packages of one layer may import one another: the first of a pair imports the second.
WITHIN_A_LAYER = {
    ("__main__", "cli"),
    ("cli", "console"),
    ("cli", "demo"),
    ("keys", "errors"),
    ("keys", "system"),
    ("system", "errors"),
}
#: The only modules directly in the package: its public API, its version, and two entry points.
TOP_LEVEL = {"__init__", "__main__", "client", "version"}
#: The five systems, which look alike: `__init__.py`, `models.py`, `http.py`, a file per verb group.
APPLICATIONS = ["workers", "lab", "orchestrator", "memory", "dispatch"]
#: The truth of a run is files in a workspace; the console serves them to browsers.
SERVED_BY_THE_CONSOLE = {"orchestrator"}
#: Calls for time, randomness and disk that only the package `system` may make.
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


def package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer(of: str) -> int:
    return next(level for level, packages in enumerate(LAYERS) if of in packages)


def wrong_imports(path: Path) -> Iterator[str]:
    """Yield what a module imports from a layer above, or from its own layer without permission."""
    own = package(path)
    for target in summary(path).imported:
        parts = target.split(".")
        if parts[0] != "onceward" or len(parts) < 2 or parts[1] in (own, "__version__"):
            continue
        is_same = layer(parts[1]) == layer(own) and (own, parts[1]) in WITHIN_A_LAYER
        if layer(parts[1]) <= layer(own) and not is_same:
            yield f"{name(path)} imports {target}"


def test_imports_point_down() -> None:
    """A package imports from the layers below it, and the applications never from one another."""
    inside = [path for path in MODULES if path != SOURCE / "__init__.py"]
    assert not [each for path in inside for each in wrong_imports(path)]


def test_imports_within_a_layer_are_used_and_form_no_cycle() -> None:
    """Every pair that is listed is in one layer and imported, and never leads back."""
    imported = {
        (package(path), target.split(".")[1])
        for path in MODULES
        for target in summary(path).imported
        if target.startswith("onceward.")
    }
    assert imported >= WITHIN_A_LAYER
    assert all(layer(one) == layer(other) for one, other in WITHIN_A_LAYER)
    applications = {name for pair in WITHIN_A_LAYER for name in pair} & set(APPLICATIONS)
    assert not applications
    left = set(WITHIN_A_LAYER)
    while left:
        importing = {one for one, _ in left}
        ends = {pair for pair in left if pair[1] not in importing}
        assert ends, f"a cycle among {left}"
        left -= ends


def test_few_modules_stand_outside_of_packages() -> None:
    """Everything but the entry points, the client and the version is in a package."""
    assert {path.stem for path in SOURCE.glob("*.py")} == TOP_LEVEL


#: Trees of tests: each imports itself and the helpers in `tests/support`.
TREES = ("unit", "conformance", "system", "browser", "proof")


def test_no_tree_of_tests_imports_another() -> None:
    """What two trees need is a helper in `tests/support`, which imports no tree."""
    found: list[str] = []
    for path in TESTS:
        own = path.relative_to(ROOT / "tests").parts[0]
        for target in summary(path).imported:
            first, _, rest = target.partition(".")
            tree_of_target = rest.partition(".")[0]
            if first == "tests" and tree_of_target in TREES and tree_of_target != own:
                found.append(f"{name(path)} imports {target}")
    assert not found


#: Where helpers of tests are: the harness of the proof runs by itself, as `python -m tests.proof`.
WITH_HELPERS = {"support", "proof"}


def test_helpers_of_tests_are_in_support() -> None:
    """Every module of the tests is a test, a conftest, or a helper in `tests/support`."""
    trees: dict[str, list[str]] = {}
    for path in TESTS:
        if not path.name.startswith("test_") and path.stem not in ("__init__", "conftest"):
            own = path.relative_to(ROOT / "tests").parts[0]
            trees.setdefault(own, []).append(name(path))
    assert trees.keys() >= WITH_HELPERS, "no helpers were found"
    assert not [each for own, found in trees.items() if own not in WITH_HELPERS for each in found]


def touches(path: Path) -> Iterator[str]:
    """Yield the calls and imports of a module that only the package `system` may have."""
    taken = FORBIDDEN_IMPORTS & {target.split(".")[0] for target in summary(path).imported}
    if taken and package(path) != "testing":
        yield f"{name(path)} imports {taken}"
    for call in summary(path).calls:
        where, last = f"{name(path)}:{call.line}", call.name.rpartition(".")[2]
        if call.name in FORBIDDEN_CALLS or last in FORBIDDEN_METHODS:
            yield f"{where} calls {call.name}"
        if last == "open":
            modes = [each for each in call.constants if isinstance(each, str)]
            if any(map(WRITING_MODES.search, modes)):
                yield f"{where} opens for writing"


def test_only_system_asks_for_time_randomness_and_disk() -> None:
    """Code that needs the clock, an id, randomness or a file takes it as an argument."""
    others = [path for path in MODULES if package(path) != "system"]
    assert not [touch for path in others for touch in touches(path)]


def sizes(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield how many lines a file and its functions have, and how many they may have."""
    yield name(path), len(path.read_text().splitlines()), FILE_LINES_MAX
    for function in summary(path).functions:
        yield f"{name(path)}: {function.name}", function.lines, FUNCTION_LINES_MAX


def test_files_and_functions_stay_small() -> None:
    """A file of more than 400 lines, or a function of more than 70, is two things."""
    found = [size for path in EVERYTHING for size in sizes(path)]
    assert not [(what, lines) for what, lines, most in found if lines > most]


#: Before Python 3.11.5 such a repeat finds something else; an atomic group does not.
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")


def test_patterns_find_the_same_on_every_python() -> None:
    """A key made by one Python must be the key that another makes."""
    found = [(name(path), call.text) for path in MODULES for call in summary(path).calls]
    patterns = [(where, text) for where, text in found if text]
    assert len(patterns) > 50
    assert not [each for each in patterns if POSSESSIVE_GROUP.search(each[1])]


def test_modules_say_what_they_are() -> None:
    """Every module opens with a sentence."""
    assert not [name(path) for path in EVERYTHING if not summary(path).has_sentence]


def test_a_class_name_has_one_meaning() -> None:
    """No two modules define a class of the same name, so that a search finds one."""
    defined: dict[str, list[str]] = {}
    for path in MODULES:
        for each in summary(path).classes:
            defined.setdefault(each, []).append(name(path))
    assert not {each: paths for each, paths in defined.items() if len(paths) > 1}


def test_tests_say_what_they_defend() -> None:
    """Every test has one sentence that states a behaviour."""
    found = [(name(path), function) for path in TESTS for function in summary(path).functions]
    tests = [(path, function) for path, function in found if function.name.startswith("test_")]
    assert not [(path, function.name) for path, function in tests if not function.has_sentence]


def test_no_test_asserts_how_long_something_took() -> None:
    """A test counts events, CPU time or simulated time: its machine may have much else to do."""
    assert not [f"{name(path)}:{line}" for path in TESTS for line in summary(path).hurried]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("assert time.monotonic() - began < 5", (2,)),
        ("took = time.perf_counter() - began\n    assert took < 5, took", (3,)),
        ("if prove:\n        assert time.monotonic() - began < 5", ()),
        ("if not prove:\n        pytest.skip('x')\n    assert time.time() - began < 5", ()),
        ("assert time.process_time() - began < 5\n    assert clock.monotonic() - began < 5", ()),
    ],
)
def test_an_assertion_on_elapsed_time_is_found(body: str, lines: tuple[int, ...]) -> None:
    """CPU time and a clock of the test's own are no such thing, and a proof may measure."""
    (function,) = ast.parse(f"def test(prove):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert tuple(hurried_assertions(function)) == lines


#: The package's own `__init__.py` loads lazily, which takes a function.
PUBLIC_APIS = [path for path in sorted(SOURCE.rglob("__init__.py")) if path.parent != SOURCE]


@pytest.mark.parametrize("path", PUBLIC_APIS, ids=name)
def test_public_apis_only_re_export(path: Path) -> None:
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
    """Each application has the same files: a public API, models, and HTTP routes."""
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
        for call in summary(path).calls:
            if call.name.endswith("crash_point"):
                (point,) = call.constants
                assert isinstance(point, str), f"{name(path)}:{call.line}"
                found.setdefault(point, []).append(f"{name(path)}:{call.line}")
    return found


def test_every_crash_point_is_registered_and_used() -> None:
    """The registry and the code name the same points; each stands in one place."""
    calls = crash_point_calls()
    assert set(calls) == set(crash_points.POINTS)
    assert all(len(places) == 1 for places in calls.values()), calls


def test_every_crash_point_is_reached_by_a_test() -> None:
    """A point without a scenario in a crash matrix would never be killed at."""
    matrices = (
        *(alerts, console, files, dispatch, lab, leases),
        *(memory, orchestrator, outcomes, retries, workers),
    )
    prefixes = tuple(prefix for matrix in matrices for prefix in matrix.SCENARIOS)
    assert not [point for point in crash_points.POINTS if not point.startswith(prefixes)]
    assert not [point for point, states in crash_points.POINTS.items() if " | " not in states]


def test_pinned_versions_record_no_addresses() -> None:
    """The constraints file holds names and versions only."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+]+", line), line
