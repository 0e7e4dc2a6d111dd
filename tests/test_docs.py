"""The documentation: what it shows runs, and what exists is in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import crash, errors
from onceward.console.app import build_app
from onceward.console.house import House
from onceward.gate import STATUS_OF_CODE
from tests.unit.cli.test_main import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROSE = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A block that the reader saves under this name before going on.
FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def shell_steps(page: Path) -> list[tuple[str, list[str]]]:
    """Return the commands that a page shows, each with the lines that it says come out."""
    steps: list[tuple[str, list[str]]] = []
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def environment() -> dict[str, str]:
    """Return a person's surroundings: pytest says more where it knows a build server."""
    binaries = Path(sys.executable).parent
    kept = {key: each for key, each in os.environ.items() if key not in ("CI", "BUILD_NUMBER")}
    return {**kept, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("page", with_blocks("python"), ids=name)
def test_python_in_the_docs_runs(page: Path, tmp_path: Path) -> None:
    """The Python blocks of a page, one after the other, are a program that works."""
    program = tmp_path / "shown.py"
    program.write_text("\n".join(blocks(page, "python")))
    command = [sys.executable, "-W", "error", str(program)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", with_blocks("console"), ids=name)
def test_commands_in_the_docs_print_what_they_say(page: Path, tmp_path: Path) -> None:
    """Every shown command, in order, prints the shown lines; files are there as shown."""
    for file, text in FILE.findall(page.read_text()):
        (tmp_path / file).write_text(text)
    for command, expected in shell_steps(page):
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown = [line for line in ran.stdout.splitlines() if "Killed" not in line]
        assert shown == expected, command


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists."""
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_documented(words: tuple[str, ...]) -> None:
    """A command has a section that names each of its options and arguments."""
    text = (REFERENCE / "cli.md").read_text()
    heading = f"## `onceward {' '.join(words)}`\n"
    assert heading in text
    section = text.split(heading)[1].split("\n## ")[0]
    for parameter in COMMANDS[words].params:
        is_option = parameter.opts[0].startswith("-")
        label = parameter.opts[0] if is_option else parameter.name.upper()
        assert f"`{label}`" in section or label == "--help", label


def all_errors() -> list[type[errors.OncewardError]]:
    found: list[type[errors.OncewardError]] = [errors.OncewardError]
    for kind in found:
        found += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_is_documented(kind: type[errors.OncewardError]) -> None:
    """An error is listed with its code, whether a retry helps, and its meaning."""
    meaning = (kind.__doc__ or "").splitlines()[0]
    row = f"| `{kind.__name__}` | `{kind.code}` | {'yes' if kind.retryable else 'no'} | {meaning} |"
    assert row in (REFERENCE / "errors.md").read_text()


@pytest.mark.parametrize("code", STATUS_OF_CODE)
def test_every_code_is_documented_with_its_status(code: str) -> None:
    """The HTTP reference names each code beside its status."""
    text = (REFERENCE / "http.md").read_text()
    assert re.search(rf"^\| {STATUS_OF_CODE[code]} \|.*`{code}`", text, re.MULTILINE)


@pytest.mark.parametrize("point", crash.POINTS)
def test_every_crash_point_is_documented(point: str) -> None:
    """A point is listed with the two states it separates."""
    assert f"| `{point}` | {crash.POINTS[point]} |" in (REFERENCE / "crash-points.md").read_text()


def console_routes() -> list[str]:
    """Return a row for every request that the console answers, from what its code says."""
    house = House(ow=lambda: pytest.fail("nobody asks"), store_url="", version="0", actor="ann")
    document = build_app(house=house).openapi()
    bodies = document["components"]["schemas"]
    rows = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            said = " ".join(operation.get("description", "").split("\n\n")[0].split())
            names = [
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"
            ]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            names += bodies.get(body.get("schema", {}).get("$ref", "").rpartition("/")[2], {}).get(
                "properties", ()
            )
            listed = ", ".join(f"`{name}`" for name in names) or "none"
            rows.append(f"| `{method.upper()} {path}` | {said} | {listed} |")
    return [row for row in rows if "/api/" in row]


@pytest.mark.parametrize("row", console_routes())
def test_every_route_of_the_console_is_documented(row: str) -> None:
    """A request is listed with what it does and takes, as the code says it."""
    assert row in (REFERENCE / "http.md").read_text(), row


def test_the_changelog_knows_this_version() -> None:
    """What is released, or will be, has an entry."""
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()


ACTION = re.compile(r'(?:action="|"action": "|trouble\(\s*"|\.note\(\s*")([a-z_]+)"')


def test_every_event_is_documented() -> None:
    """An action that a worker logs is listed, and nothing else is."""
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    logged = {*ACTION.findall(source), "message_failed", "alert_fired", "alert_cleared"}
    text = (REFERENCE / "events.md").read_text()
    assert set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE)) == logged
