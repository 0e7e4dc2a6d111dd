"""Run directories: an allowed root, a run directory in it, and a function to open it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.lab.run_artifacts import RunDirectory

SECRET = b'{"title": "the secret that lies outside"}'


Opener = Callable[..., RunDirectory]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "run").mkdir(parents=True)
    (tmp_path / "secret.json").write_bytes(SECRET)
    return tmp_path / "root"


@pytest.fixture
def run_path(root: Path) -> Path:
    return root / "run"


@pytest.fixture
def open_run(root: Path, run_path: Path) -> Iterator[Opener]:
    opened: list[RunDirectory] = []

    def open_run(video: str | None = None) -> RunDirectory:
        opened.append(RunDirectory.open(run_path, [root], video=video))
        return opened[-1]

    yield open_run
    for each in opened:
        each.close()


def write_file(path: Path, value: object = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def problems(run: RunDirectory) -> dict[str, str]:
    content: Any = run.content()
    return {each["name"]: each["problem"] for each in content["problems"]}
