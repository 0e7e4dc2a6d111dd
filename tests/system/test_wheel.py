"""The package as people get it: built from a clean checkout, installed without Node.js, served."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from onceward.version import __version__
from tests.support.forked_tests import directory_of_all

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: What is made, and not part of a checkout.
MADE = shutil.ignore_patterns(
    *(".*_cache", ".ci", ".git", ".hypothesis", ".venv", "__pycache__", "node_modules"),
    *("build", "built", "dist", "schema.d.ts"),
)
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
NODE = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
#: What pages are made with, if it is installed.
TOOLS = ROOT / "web" / "node_modules"
#: A PATH on which there is neither a compiler nor Node.js.
BARE_PATH = "/nowhere"
BUILT = "onceward/http/built/"
#: The documentation that the server shows, laid out as in the source tree.
MANUAL = "onceward/manual/"
INFO = f"onceward-{__version__}.dist-info/"
#: As pip asks for it, without an environment of its own each time.
BUILD = """
import os, sys
from hatchling import build
os.chdir(sys.argv[2])
getattr(build, f"build_{sys.argv[1]}")(sys.argv[3])
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


def built(kind: str, project: Path, target: Path, *, skip: str = "") -> Path:
    """Build a `wheel` or an `sdist` where there is neither a compiler nor Node.js."""
    target.mkdir(exist_ok=True)
    run(sys.executable, "-c", BUILD, kind, project, target, path=BARE_PATH, skip=skip)
    (found,) = target.glob("onceward-*")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, prove: bool) -> Path:
    """The wheel of a clean checkout, as pip builds it; one for all processes of this test run.

    A long proof fetches what builds it, as pip and npm do for all users; else ours will do.
    """
    shared = directory_of_all(tmp_path_factory) / "wheel"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        project, target = shared / "project", shared / "dist"
        if not list(target.glob("*.whl")):
            shutil.copytree(ROOT, project, ignore=MADE)
            ours = () if prove else ("--no-build-isolation",)
            if ours and TOOLS.exists():
                (project / "web" / TOOLS.name).symlink_to(TOOLS)
            run(sys.executable, *PIP, "wheel", "--no-deps", *ours, "--wheel-dir", target, project)
    (found,) = target.glob("onceward-*.whl")
    return found


@pytest.fixture
def project(wheel: Path) -> Path:
    """The checkout that it was built of, whose pages are built now."""
    return wheel.parent.parent / "project"


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
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=30)


def installed(wheel: Path, directory: Path, *, is_whole: bool) -> Path:
    """Install a wheel into a fresh environment, with all that it requires or beside ours.

    Nothing is compiled: what has no wheel is refused.
    """
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    pinned = ("--constraint", ROOT / "constraints.txt", "--only-binary", ":all:")
    words = ("install", "--no-compile", *(pinned if is_whole else ("--no-deps",)), wheel)
    run(sys.executable, *PIP, "--python", python, *words, path=BARE_PATH)
    if not is_whole:
        (site,) = directory.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.mark.prove
def test_a_wheel_installed_without_node_serves_the_console(
    wheel: Path, tmp_path: Path, prove: bool
) -> None:
    """The page, everything that it names, and a deep link come from the package alone."""
    python = installed(wheel, tmp_path / "venv", is_whole=prove)
    assert shutil.which("node", path=str(python.parent)) is None
    said = subprocess.check_output([python.parent / "onceward", "--version"], text=True)
    assert said == f"onceward {__version__}\n"
    with served(python, tmp_path) as client:
        page = client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        named = re.findall(r'"(/assets/[^"]+)"', page.text)
        assert {Path(each).suffix for each in named} >= {".js", ".css"}
        for each in named:
            found = client.get(each)
            assert (found.status_code, bool(found.content)) == (200, True), each
        for deep in ("/cursors/orders%2Feu", "/memory?q=price", "/outcomes/detail?scope=a&key=b"):
            assert client.get(deep).text == page.text
        assert client.get("/api/console/config").status_code == 200
        assert client.get("/healthz").json()["version"] == __version__


def test_a_wheel_holds_the_package_and_nothing_else(wheel: Path, project: Path) -> None:
    """Every file of the package with its pages, types and licence; no tests, no other sources."""
    source = project / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {"onceward/py.typed", f"{BUILT}index.html", f"{BUILT}manifest.json"} <= ours
    assert any(name.startswith(f"{BUILT}assets/main-") for name in ours)
    names = set(contents(wheel))
    manual = {name for name in names if name.startswith(MANUAL)}
    assert {name for name in names - manual if not name.startswith(INFO)} == ours
    assert {f"{MANUAL}docs/index.md", f"{MANUAL}docs/tutorial/workers.md"} <= manual
    assert all((project / name.removeprefix(MANUAL)).is_file() for name in manual)
    assert f"{INFO}licenses/LICENSE" in names
    assert not [name for name in names if name.endswith((".tsx", ".mjs"))]


def test_a_wheel_says_what_it_is_and_needs(wheel: Path) -> None:
    """One version, a page for people, and extras for what not all users need."""
    metadata = Parser().parsestr(contents(wheel)[f"{INFO}METADATA"].decode())
    assert (metadata["Name"], metadata["Version"]) == ("onceward", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# Onceward")
    by_extra: dict[str, set[str]] = {}
    for each in metadata.get_all("Requires-Dist") or []:
        wanted, _, extra = each.partition("; extra == ")
        by_extra.setdefault(extra.strip("'\""), set()).add(wanted)
    assert not [each for each in by_extra[""] if each.startswith("psycopg")]
    assert [re.split(r"[\[><=]", each)[0] for each in by_extra["postgres"]] == ["psycopg"]
    assert by_extra["all"] == by_extra["postgres"]


def test_a_wheel_can_be_built_without_pages(project: Path, tmp_path: Path) -> None:
    """With the setting the wheel has no pages, and needs no Node.js."""
    bare = shutil.copytree(project, tmp_path / "bare", ignore=MADE)
    found = contents(built("wheel", bare, tmp_path / "dist", skip="1"))
    assert not [name for name in found if BUILT in name]


def test_without_node_and_pages_the_build_says_what_to_do(project: Path, tmp_path: Path) -> None:
    """A build that cannot make the pages fails, and names both ways on."""
    bare = shutil.copytree(project, tmp_path / "bare", ignore=MADE)
    with pytest.raises(AssertionError, match=r"(?s)there is no npm.*fix: .*ONCEWARD_SKIP_WEB=1"):
        built("wheel", bare, tmp_path / "dist")


def test_a_source_distribution_makes_the_same_wheel(
    wheel: Path, project: Path, tmp_path: Path
) -> None:
    """It has all that the checkout has, pages included: building it needs no Node.js."""
    source = built("sdist", project, tmp_path / "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    assert not list(unpacked.rglob("node_modules"))
    missing = files(project) - files(unpacked)
    assert not missing
    again = built("wheel", unpacked, tmp_path / "wheel")
    assert contents(again) == contents(wheel)


def files(directory: Path) -> set[str]:
    """Return what is in a checkout, made things aside."""
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and {"node_modules", "__pycache__"}.isdisjoint(path.parts)
    }


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
