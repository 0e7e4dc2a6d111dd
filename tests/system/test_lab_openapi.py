"""The Lab's OpenAPI document, taken at its word by a fuzzer against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceward.console.app import build_app
from onceward.lab.lab import Lab
from tests.support import lab_openapi_hooks
from tests.support.labs import make_experiment, make_lab, make_run, submission
from tests.support.openapi_fuzzing import fuzz, serving

#: `make test` and `make soak`; loading, and shrinking what fails, comes on top.
SECONDS, SECONDS_OF_SOAK = 15, 600
#: For the fuzzer to decide.
OPEN_EXPERIMENTS = 40
DECLARED = {
    "files": [
        {"path": "notes.md", "label": "Notes", "kind": "markdown"},
        {"path": "log.txt", "label": "Log", "kind": "text"},
        {"path": "gone.png", "label": "Gone", "kind": "image"},
    ]
}


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
    }


def _probability(place: str) -> float:
    """Return how often what exists is sent there: a known request id is mostly a refusal."""
    if "request" in place.lower():
        return 0.05
    return 0.95 if place.startswith("body.") else 0.5


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_OF_SOAK + 600)
def test_the_lab_conforms_to_its_openapi_document(tmp_path: Path, prove: bool, soak: bool) -> None:
    """Whatever the document allows or forbids, no answer is a 500 or breaks its schema."""
    lab = make_lab(tmp_path)
    (tmp_path / "schemathesis.toml").write_text(settings_for(lab, tmp_path))
    seconds, token = SECONDS_OF_SOAK if soak else SECONDS, "tok_fuzzed"
    environment = hooks_for(lab, tmp_path)
    with serving(build_app(lab=lab), token) as url:
        fuzz(
            url,
            token,
            tmp_path,
            seconds=seconds,
            got_through=lambda: lab.submitted > (50 if soak else 1),
            is_random=prove,
            environment=environment,
        )
