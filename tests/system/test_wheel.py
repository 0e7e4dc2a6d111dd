"""The package as people get it: built from a clean checkout, installed without Node.js, served."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: What a checkout has, as far as a package is made of it.
PARTS = ("src", "web", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
MADE = shutil.ignore_patterns("__pycache__", "built", "node_modules")
NO_NODE = shutil.ignore_patterns("__pycache__", "node_modules")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
NODE = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
BUILT = "onceward/console/built/"
#: Pip makes no source distributions; what it asks for wheels can.
BUILD_SOURCE = """
import os, sys
from hatchling.build import build_sdist
os.chdir(sys.argv[1])
build_sdist(sys.argv[2])
"""

pytestmark = pytest.mark.skipif(
    NODE is None, reason="no npm, so no pages can be built; fix: install Node.js"
)


def run(*command: str | Path, path: str | None = None, skip: str = "") -> None:
    """Run a command that must succeed, with this PATH."""
    found = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
    ran = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PATH": path or found, "ONCEWARD_SKIP_WEB": skip},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def checkout(directory: Path) -> Path:
    """Copy what a clean checkout has."""
    for name in PARTS:
        source, target = ROOT / name, directory / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=MADE)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return directory


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("project") / "onceward")


@pytest.fixture(scope="module")
def wheel(project: Path) -> Path:
    """The wheel of a clean checkout; its pages were built for it."""
    target = project.parent / "dist"
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", target, project)
    (found,) = target.glob("onceward-*.whl")
    return found


def fresh(directory: Path, *wanted: str | Path) -> Path:
    """Make an environment with nothing but this in it, and return its Python."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    run(sys.executable, *PIP, "--python", python, "install", "--no-compile", *wanted)
    return python


@contextmanager
def served(python: Path, home: Path) -> Iterator[httpx.Client]:
    """Run the installed server with nothing but its own environment to be found."""
    process = subprocess.Popen(
        [python.parent / "onceward", "up", "--port", "0", "--no-open", "--json"],
        cwd=home,
        env={"PATH": str(python.parent), "HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with httpx.Client(base_url=url, trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_a_wheel_installed_without_node_serves_the_console(wheel: Path, tmp_path: Path) -> None:
    """The page, everything that it names, and a deep link come from the package alone."""
    python = fresh(tmp_path / "venv", "--constraint", ROOT / "constraints.txt", wheel)
    assert shutil.which("node", path=str(python.parent)) is None
    with served(python, tmp_path) as client:
        page = client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        named = re.findall(r'"(/assets/[^"]+)"', page.text)
        assert {Path(each).suffix for each in named} >= {".js", ".css"}
        for each in named:
            found = client.get(each)
            assert (found.status_code, bool(found.content)) == (200, True), each
        for deep in ("/cursors/orders%2Feu", "/memory?q=price", "/requests/detail?scope=a&key=b"):
            assert client.get(deep).text == page.text
        assert client.get("/api/console/config").status_code == 200


def test_a_wheel_holds_the_pages_and_no_sources_of_them(wheel: Path) -> None:
    """What is built is packed; what it is built of is not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {f"{BUILT}index.html", f"{BUILT}manifest.json"} <= set(names)
    assert any(name.startswith(f"{BUILT}assets/main-") for name in names)
    assert not [name for name in names if "node_modules" in name or name.endswith((".tsx", ".mjs"))]


def test_a_wheel_can_be_built_without_pages(tmp_path: Path) -> None:
    """Whoever says so goes without them, and needs no Node.js."""
    copy, path = checkout(tmp_path / "bare"), str(Path(sys.executable).parent)
    words = (*PIP, "wheel", "--no-deps", "--wheel-dir", tmp_path, copy)
    run(sys.executable, *words, path=path, skip="1")
    (found,) = tmp_path.glob("onceward-*.whl")
    assert pages(found) == {}


def test_pages_that_are_there_are_taken_without_node(wheel: Path, tmp_path: Path) -> None:
    """A source distribution brings its pages along: a wheel of it has them, without Node.js."""
    project = wheel.parent.parent / "onceward"
    unpacked = shutil.copytree(project, tmp_path / "unpacked", ignore=NO_NODE)
    path = str(Path(sys.executable).parent)
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", tmp_path, unpacked, path=path)
    (again,) = tmp_path.glob("onceward-*.whl")
    assert pages(again) == pages(wheel)


@pytest.mark.prove
def test_a_source_distribution_has_pages_and_their_sources(
    wheel: Path, tmp_path: Path, prove: bool
) -> None:
    """Whoever has it can build what it holds, or change it first."""
    if not prove:
        pytest.skip("takes an environment of its own; `make prove` runs it")
    python = fresh(tmp_path / "venv", "hatchling")
    run(python, "-c", BUILD_SOURCE, wheel.parent.parent / "onceward", tmp_path)
    (source,) = tmp_path.glob("onceward-*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"web/build.mjs", "hatch_build.py", f"src/{BUILT}index.html"} <= names
    assert not [name for name in names if "node_modules" in name]


def pages(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if BUILT in name}
