"""The documentation: what it shows runs.

`test_reference.py` asks for what it leaves out, `test_site.py` follows its links.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A block that the reader saves under this name before going on.
FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def agrees(shown: list[str], expected: list[str]) -> bool:
    """Return whether an output is as a page says.

    In a line, `…` stands for any text, such as a time or an id; a line `…` for any lines.
    """
    patterns = [
        "(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".+") + "\n"
        for line in expected
    ]
    return bool(re.fullmatch("".join(patterns), "".join(f"{line}\n" for line in shown)))


@pytest.mark.parametrize(
    ("expected", "is_right"),
    [
        (["begins", "  id (a.b)", "done (2.7 s)"], True),
        (["begins", "  id (…)", "done (… s)"], True),
        (["…", "done (…)"], True),
        (["begins", "…"], True),
        (["begins", "…", "  id (a.b)", "…", "done (2.7 s)", "…"], True),
        (["begins", "  id (a.b)"], False),
        (["  id (a.b)", "done (2.7 s)"], False),
        (["begins", "  id (aXb)", "done (2.7 s)"], False),
        (["begins", "  id (…", "done (… ms)"], False),
        (["begins…", "…"], False),
        (["begins…done (2.7 s)"], False),
        (["…", "failed", "…"], False),
        (["…", "done (2.7 s)", "begins", "…"], False),
        ([], False),
    ],
)
def test_an_output_is_compared_line_by_line(expected: list[str], is_right: bool) -> None:
    """What a page leaves out is marked; all else has to be there, and nothing more."""
    assert agrees(["begins", "  id (a.b)", "done (2.7 s)"], expected) is is_right


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
    # A newcomer runs the README's program again, in the same directory.
    for _ in range(2 if page.name == "README.md" else 1):
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", with_blocks("console"), ids=name)
def test_commands_in_the_docs_print_what_they_say(page: Path, tmp_path: Path) -> None:
    """Every shown command, in order, prints the shown lines; files are there as shown.

    `agrees` says what `…` stands for.
    """
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
        assert agrees(shown, expected), f"{command}\n{ran.stdout}\nis not\n" + "\n".join(expected)


@pytest.mark.parametrize("page", sorted((ROOT / "docs/tutorial").glob("*.md")), ids=name)
def test_a_tutorial_shows_what_its_reader_sees(page: Path) -> None:
    """A line `…` leaves lines out; no command cuts its own output down."""
    cut = re.compile(r"\| *(cut|grep|head|sed|tail)\b")
    assert not [command for command, _ in shell_steps(page) if cut.search(command)]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if re.search(r"ssh (-N )?-[LR] ", page.read_text())],
    ids=name,
)
def test_h65_a_page_that_shows_a_tunnel_requires_the_token(page: Path) -> None:
    """The server sees the tunnel's own process, so every user at its other end is the owner."""
    assert "--require-token" in page.read_text()


def test_h65_the_unit_file_lets_servers_recognise_their_owner() -> None:
    """The kernel's socket table is read over netlink."""
    text = (ROOT / "docs" / "how-to" / "run-under-systemd.md").read_text()
    assert re.findall(r"^RestrictAddressFamilies=(.*)$", text, re.MULTILINE) == [
        "AF_UNIX AF_INET AF_INET6 AF_NETLINK"
    ]


def test_the_changelog_knows_this_version() -> None:
    """What is released, or will be, has an entry."""
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
