"""Source facts: what the checks of this project's conventions need to know about a file."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs.make.source import parse

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onceward"
#: What statements are made of, other than expressions.
BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)
#: Where the machine is quiet, a proof may measure: in a branch for `prove`, or after a skip.
MEASURES = re.compile(r"\bprove\b")
CLOCKS = {"monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns", "time_ns"}


def tree(path: Path) -> ast.Module:
    return parse(path.read_text(), str(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """The facts about a function that the tests need."""

    name: str
    lines: int
    has_sentence: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """The facts about a call that the tests need."""

    #: Of a result or an item its last part.
    name: str
    line: int
    #: Its arguments by position, where they are constants.
    constants: tuple[object, ...]
    #: What is written, for a call of the module `re`.
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The facts about a file that the tests need; its syntax tree is far too large to keep."""

    imported: tuple[str, ...]
    functions: tuple[Function, ...]
    classes: tuple[str, ...]
    #: Looked for in our source.
    calls: tuple[Call, ...]
    #: Lines of assertions on elapsed time, looked for in tests.
    hurried: tuple[int, ...]
    #: True for an empty file, which needs none.
    has_sentence: bool


@cache
def summary(path: Path) -> Summary:
    """Read a file once for all tests."""
    module = tree(path)
    imported: list[str] = []
    functions: list[Function] = []
    classes: list[str] = []
    hurried: set[int] = set()
    for node in statements(module):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            said = bool(ast.get_docstring(node))
            functions.append(Function(name=node.name, lines=lines, has_sentence=said))
            hurried |= set(hurried_assertions(node) if path.is_relative_to(ROOT / "tests") else ())
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return Summary(
        imported=tuple(imported),
        functions=tuple(functions),
        classes=tuple(classes),
        calls=tuple(calls(module)) if path.is_relative_to(SOURCE) else (),
        hurried=tuple(sorted(hurried)),
        has_sentence=not module.body or bool(ast.get_docstring(module)),
    )


def statements(module: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement, however deep, and no expression: there are many more of those."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, BLOCKS)]


def calls(module: ast.Module) -> Iterator[Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = called(node)
            values = [each.value if isinstance(each, ast.Constant) else ... for each in node.args]
            text = ast.unparse(node) if name.startswith("re.") else ""
            yield Call(name=name, line=node.lineno, constants=tuple(values), text=text)


def called(node: ast.Call) -> str:
    """Return the name under which something is called; of a result or an item its last part."""
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([function.id if isinstance(function, ast.Name) else "", *reversed(parts)])


def hurried_assertions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Yield the lines where a test fails because its machine has much else to do."""
    elapsed: set[str] = set()
    measuring: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_elapsed(node.value, set()):
            elapsed |= {root(target) for target in node.targets}
        elif isinstance(node, ast.If) and MEASURES.search(ast.unparse(node.test)):
            if "pytest.skip" in ast.unparse(node):
                return
            measuring |= set(ast.walk(node))
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and node not in measuring and is_elapsed(node, elapsed):
            yield node.lineno


def is_elapsed(within: ast.AST, names: set[str]) -> bool:
    """Return whether a clock is subtracted from somewhere, or one of the names is used."""
    for node in ast.walk(within):
        if isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            call = node.left
            if isinstance(call, ast.Call) and called(call).removeprefix("time.") in CLOCKS:
                return True
    return False


def root(target: ast.expr) -> str:
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
