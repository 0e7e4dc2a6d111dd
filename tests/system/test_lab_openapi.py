"""The Lab's OpenAPI document, taken at its word by a fuzzer against a real server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from onceward.console.app import build_app
from onceward.gate import Gate, GateSettings
from onceward.lab.lab import Lab
from tests.system import lab_openapi_hooks
from tests.unit.lab.labs import make_experiment, make_lab, make_run, submission

#: `make test` and `make soak`; loading, and shrinking what fails, comes on top.
SECONDS, SECONDS_OF_SOAK = 15, 600
#: For the fuzzer to decide.
OPEN_EXPERIMENTS = 40
ROOT = Path(__file__).parent.parent.parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "allow_header_conformance",
)
DECLARED = {
    "files": [
        {"path": "notes.md", "label": "Notes", "kind": "markdown"},
        {"path": "log.txt", "label": "Log", "kind": "text"},
        {"path": "gone.png", "label": "Gone", "kind": "image"},
    ]
}


@contextmanager
def serving(lab: Lab) -> Iterator[str]:
    """Serve a Lab as the command does, in a thread; gives its address."""
    app = build_app(lab=lab)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = GateSettings(port=port, token=lab.session.token)
        config = uvicorn.Config(
            Gate(app, settings=settings), log_level="error", access_log=False, server_header=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        # Nobody here has the time to wait for feedback: every long poll ends at once.
        app.state.stop_waiting()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def settings_for(lab: Lab, directory: Path) -> str:
    """Return the fuzzer's settings: what exists is mostly what is asked for."""
    decided, open_one = make_experiment(lab, directory), make_experiment(lab, directory)
    lab.submit(decided.experiment_id, submission(decided), "known")
    place = directory / "runs" / "side0"
    (place / "video.mp4").write_bytes(b"\0" * 1000)
    (place / "lab.json").write_text(json.dumps(DECLARED))
    (place / "notes.md").write_text("# Notes\n\n[a](javascript:alert(1)) <b>bold</b>\n")
    (place / "log.txt").write_text("line\n")
    more = [make_run(directory, f"more{number}") for number in range(8)]
    runs = [lab.import_run(str(each)).run_id for each in (place, *more)]
    page = lab.poll()
    known = {
        "runs": runs,
        "experiments": [decided.experiment_id, open_one.experiment_id],
        "variants": ["baseline", open_one.variants[0].variant_id],
        "names": ["script.json", "notes.md", "log.txt", "gone.png"],
        "paths": [str(place), str(directory / "nope" / "x.json"), "/etc", "x.json"],
        "cursors": ["0", page.next_cursor],
        "sessions": [lab.session.session_id],
        "requests": ["known", "new"],
    }
    bound = {
        "path.run_id": "runs",
        "path.experiment_id": "experiments",
        "path.name": "names",
        "query.since": "cursors",
        "query.sessionId": "sessions",
        "header.X-CM-LAB-REQUEST-ID": "requests",
        "body.path": "paths",
        "body.sessionId": "sessions",
        "body.runId": "runs",
        "body.experimentId": "experiments",
        "body.variantId": "variants",
        "body.winnerVariantId": "variants",
        "body.baselineRunId": "runs",
        "body.variants[*].runId": "runs",
        "body.perRun[*].runId": "runs",
        "body.perRun[*].variantId": "variants",
        "body.requestId": "requests",
    }
    lines = [f"[dictionaries.{name}]\nvalues = {json.dumps(v)}\n" for name, v in known.items()]
    lines += ["[parameters]"]
    lines += [
        f'"{place}" = {{ dictionary = "{name}", probability = {_probability(place)} }}'
        for place, name in bound.items()
    ]
    return "\n".join(lines)


def hooks_for(lab: Lab, directory: Path) -> dict[str, str]:
    """Return what the fuzzer's hooks find in the environment: experiments to be decided."""
    made = [make_experiment(lab, directory) for _ in range(OPEN_EXPERIMENTS)]
    sides = [
        [("baseline", each.baseline_run_id), *((v.variant_id, v.run_id) for v in each.variants)]
        for each in made
    ]
    listed = [
        {"id": each.experiment_id, "sides": [{"variantId": v, "runId": r} for v, r in found]}
        for each, found in zip(made, sides, strict=True)
    ]
    file = directory / "experiments.json"
    file.write_text(json.dumps(listed))
    return {
        "SCHEMATHESIS_HOOKS": lab_openapi_hooks.__name__,
        lab_openapi_hooks.EXPERIMENTS_VARIABLE: str(file),
        "PYTHONPATH": str(ROOT),
    }


def _probability(place: str) -> float:
    """Return how often what exists is sent there: a known request id is mostly a refusal."""
    if "request" in place.lower():
        return 0.05
    return 0.95 if place.startswith("body.") else 0.5


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_OF_SOAK + 600)
def test_the_lab_keeps_what_its_openapi_document_says(tmp_path: Path, soak: bool) -> None:
    """Whatever the document allows or forbids, no answer is a 500 or breaks its schema."""
    lab = make_lab(tmp_path)
    config = tmp_path / "schemathesis.toml"
    config.write_text(settings_for(lab, tmp_path))
    environment = {**os.environ, **hooks_for(lab, tmp_path)}
    with serving(lab) as url:
        command = [
            *(str(Path(sys.executable).parent / "st"), f"--config-file={config}", "run"),
            f"{url}/api/console/openapi.json",
            *("--header", f"X-CM-LAB-TOKEN: {lab.session.token}"),
            *("--checks", ",".join(CHECKS)),
            *("--max-time", str(SECONDS_OF_SOAK if soak else SECONDS)),
            "--no-color",
        ]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # It got through: what it sent was not all refused.
    assert lab.submitted > (50 if soak else 1)
