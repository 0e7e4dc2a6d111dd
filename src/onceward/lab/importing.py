"""Importing: a directory becomes a run, the same one as long as its content is the same.

Also the way back: from a run to its directory, if that still holds it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onceward.errors import Conflict, InvalidArgument, OncewardError, RequestRefused, WrongPath
from onceward.lab.artifacts import RECOGNISED, RunDirectory
from onceward.lab.catalog import Catalog
from onceward.lab.models import Run
from onceward.rooted import contained

#: What a person may point at to import the directory around it and watch this one.
VIDEO_SUFFIXES: Final = (".mp4", ".webm")


def open_place(path: str, roots: Sequence[Path]) -> tuple[str, RunDirectory]:
    """Return the directory that a person named, by itself or by a file in it, and open it."""
    place = _contained(path, roots)
    # Only one's own home is spelled so, as where the path was looked up.
    whole = os.path.expanduser(path) if path.split("/", maxsplit=1)[0] == "~" else path  # noqa: PTH111
    named = os.path.abspath(whole)  # noqa: PTH100 - keeps links as they were named
    try:
        return named, RunDirectory.open(place, roots)
    except WrongPath:
        if not os.path.isfile(place):  # noqa: PTH113 - says no, whatever is wrong with the name
            raise
    around, name = os.path.split(named)
    place = _contained(around, roots)
    is_video = Path(name).suffix.lower() in VIDEO_SUFFIXES
    directory = RunDirectory.open(place, roots, video=name if is_video else None)
    return around, directory


def _contained(path: str, roots: Sequence[Path]) -> Path:
    """Return what a path leads to; the same refusal whether there is something there or not."""
    found = contained(path, roots)
    if found is None:
        message = "path: it is not inside a directory that this server may read"
        shown = ", ".join(map(str, roots)) or "none"
        fix = f"start it with --allow-root; it may read: {shown}"
        raise RequestRefused(message, fix=fix, field="path")
    root, relative = found
    return root / relative


def find_or_make(  # noqa: PLR0913 - what a new run begins with
    directory: RunDirectory,
    catalog: Catalog,
    *,
    run_id: str,
    session_id: str,
    created_at: str,
    artifacts_dir: str,
) -> tuple[Run, bool]:
    """Return the run of a directory as it is now, and whether it is a new one."""
    if not directory.is_recognisable():
        problems = "".join(f"; {each.problem}" for each in directory.manifest.problems[:3])
        message = f"path: nothing in {directory.path} can be judged{problems}"
        fix = f"put one of these there: {', '.join(RECOGNISED)}"
        raise InvalidArgument(message, fix=fix, field="path", recognised=list(RECOGNISED))
    place = str(directory.path)
    before = catalog.runs_at(place)
    for run in reversed(before):
        if directory.holds(run.fingerprint):
            return run, False
    video = directory.video_name()
    made = Run(
        run_id=run_id,
        session_id=session_id,
        created_at=created_at,
        topic=directory.topic(),
        artifacts_dir=artifacts_dir,
        artifacts_dir_realpath=place,
        fingerprint=directory.fingerprint(),
        supersedes_run_id=before[-1].run_id if before else None,
        video_path=str(directory.path / video) if video else None,
        reports=directory.reports(),
        metrics=directory.metrics(),
    )
    return made, True


def open_run(run: Run, roots: Sequence[Path]) -> RunDirectory:
    """Open the directory of a run, if it may be read and still holds that run."""
    place = Path(run.artifacts_dir_realpath)
    directory = RunDirectory.open(place, roots, video=run.video_path)
    if not directory.holds(run.fingerprint):
        directory.close()
        message = f"{run.artifacts_dir} was overwritten since this run was imported"
        raise Conflict(message, fix="import it again to judge what is there now")
    return directory


def as_now(run: Run, roots: Sequence[Path]) -> Run:
    """Return a run with the reports and metrics of this moment, else with those of its import."""
    try:
        with open_run(run, roots) as directory:
            return replace(run, reports=directory.reports(), metrics=directory.metrics())
    except OncewardError:
        return run
