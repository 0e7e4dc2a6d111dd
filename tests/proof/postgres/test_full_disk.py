"""The disk under PostgreSQL's tables is full for a while."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import DiskFull
from onceward.testing.postgres import PostgresServer
from tests.proof.postgres.conftest import Undisturbed
from tests.proof.postgres.scenario import TABLES, Scenario, finals, state
from tests.support.evidence import Entry, Evidence

#: A database with our tables has some 12 MB.
SIZE = "24m"


@pytest.fixture
def place() -> Iterator[Path]:
    """Mount a small file system that belongs to PostgreSQL's user."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    directory = Path(tempfile.mkdtemp(prefix="onceward-full-"))
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(directory)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    shutil.chown(directory, "nobody")  # wording: data
    directory.chmod(0o700)
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
    directory.rmdir()


@contextmanager
def full(place: Path) -> Iterator[None]:
    """Take all the space there is, for a block."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    yield
    ballast.unlink()


def run_on_full_disk(
    does: Scenario, direct: psycopg.Connection[Any], place: Path, steps_max: int
) -> int:
    """Let so many steps meet a full disk first; return how many were refused."""
    refusals = 0
    for number, step in enumerate(does.steps()):
        if number < steps_max:
            with full(place):
                before = state(direct)
                with suppress(DiskFull):
                    step()
                    continue
                assert state(direct) == before, "refused, and something has changed"
                refusals += 1
        step()
    return refusals


@pytest.mark.prove
def test_a_full_disk(
    postgres_server: PostgresServer, place: Path, calm: Undisturbed, prove: bool, evidence: Evidence
) -> None:
    """At each step callers get an error, and nothing was changed; with space, all is done once."""
    with closing(psycopg.connect(postgres_server.url, autocommit=True)) as admin:
        admin.execute(f"create tablespace small location '{place}'".encode())
        admin.execute("create database small template onceward_template tablespace small")
        url = postgres_server.database("small")
        with closing(psycopg.connect(url, autocommit=True)) as direct, open_handle(url) as ow:
            direct.execute(TABLES.encode())
            does = Scenario(ow)
            refusals = run_on_full_disk(does, direct, place, 100 if prove else 3)
            assert finals(direct) == calm.final
            assert does.mails == ["o2"]
        admin.execute("drop database small with (force)")
        admin.execute("drop tablespace small")
    evidence.record(
        Entry(
            campaign="the disk under PostgreSQL's tables is full, at each step in turn",
            layer="postgres",
            claims=("D1", "I1", "M3"),
            engine="postgres",
            schedules=refusals,
            faults={"disk full": refusals},
            work=len(calm.states) - 1,
        )
    )
