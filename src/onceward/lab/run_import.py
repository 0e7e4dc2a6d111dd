"""Run import: register a directory as a run; unchanged content returns the existing run.

Also opens the directory of a run, if its content is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onceward.errors import Conflict, InvalidArgument, OncewardError, RequestRefused, WrongPath
from onceward.lab.catalog import LabCatalog
from onceward.lab.models import LabRun
from onceward.lab.run_artifacts import RECOGNISED, RunDirectory
from onceward.system.safe_paths import locate_below

#: A path to such a file imports its directory, with this file as the video.
VIDEO_SUFFIXES: Final = (".mp4", ".webm")


def open_directory(path: str, roots: Sequence[Path]) -> tuple[str, RunDirectory]:
    """Open the directory at a path, or around a file; return its path and the open directory."""
    place = _contained(path, roots)
    # Only `~` itself is expanded, not `~user`, as in the check of the path above.
    expanded = os.path.expanduser(path) if path.split("/", maxsplit=1)[0] == "~" else path  # noqa: PTH111
    named = os.path.abspath(expanded)  # noqa: PTH100 - keeps links as they were named
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
    """Return the real path if it is inside an allowed root; the error reveals nothing else."""
    found = locate_below(path, roots)
    if found is None:
        message = "path: is not inside a directory that this server may read"
        shown = ", ".join(map(str, roots)) or "none"
        fix = f"start the server with --allow-root for it; it may read: {shown}"
        raise RequestRefused(message, fix=fix, field="path")
    root, relative = found
    return root / relative


def find_or_create_run(  # noqa: PLR0913 - the fields of a new run
    directory: RunDirectory,
    catalog: LabCatalog,
    *,
    run_id: str,
    session_id: str,
    created_at: str,
    artifacts_dir: str,
) -> tuple[LabRun, bool]:
    """Return the run of a directory's current content, and whether it is new."""
    if not directory.is_recognisable():
        problems = "".join(f"; {each.problem}" for each in directory.manifest.problems[:3])
        message = (
            f"path: {directory.path} has no file that the Lab can show; no run was added{problems}"
        )
        fix = f"pass the directory of a run, or add at least one of {', '.join(RECOGNISED)}"
        raise InvalidArgument(message, fix=fix, field="path", recognised=list(RECOGNISED))
    place = str(directory.path)
    before = catalog.runs_at(place)
    for run in reversed(before):
        if directory.holds(run.fingerprint):
            return run, False
    video = directory.video_name()
    made = LabRun(
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


def open_run(run: LabRun, roots: Sequence[Path]) -> RunDirectory:
    """Open the directory of a run, if it may be read and its content is unchanged."""
    place = Path(run.artifacts_dir_realpath)
    directory = RunDirectory.open(place, roots, video=run.video_path)
    if not directory.holds(run.fingerprint):
        directory.close()
        message = f"{run.artifacts_dir} has changed since this run was imported; it is not shown"
        raise Conflict(message, fix="import the directory again to see and judge it as it is now")
    return directory


def with_current_reports(run: LabRun, roots: Sequence[Path]) -> LabRun:
    """Return a run with its current reports and metrics; those of its import if unreadable."""
    try:
        with open_run(run, roots) as directory:
            return replace(run, reports=directory.reports(), metrics=directory.metrics())
    except OncewardError:
        return run
