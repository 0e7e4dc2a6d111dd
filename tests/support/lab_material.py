"""Material: runs to look at, comparisons of them, and what a server has on disk afterwards."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import av

from onceward.journal import Journal
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run, paths_in

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
QUESTIONS = [
    {"id": "clear", "prompt": "Is the first sentence clear?", "type": "yes_no_unsure"},
    {"id": "idea", "prompt": "What would you change?", "type": "text"},
]


def reports(rating: float, drift: float, captions: float, score: float) -> dict[str, object]:
    """Return the reports of a run; three of its metrics and the label of one."""
    return {
        "sync_report": {
            "rating": rating,
            "ratingLabel": "passable",
            "metrics": {"meanDriftMs": drift, "maxDriftMs": drift * 3},
        },
        "caption_report": {"captionQuality": {"overall": {"score": captions}}},
        "score": {"overall": score},
    }


def make_video(place: Path, seconds: int = 12) -> Path:
    """Write a small video of one colour."""
    path = place / "video.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=5, options={"g": "5"})
        stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
        for _ in range(seconds * 5):
            frame = av.VideoFrame(64, 36, "yuv420p")
            for plane in frame.planes:
                plane.update(bytes([120]) * plane.buffer_size)
            for packet in stream.encode(frame):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return path


def make_documents(
    directory: Path,
    name: str,
    files: dict[str, str | bytes],
    declared: list[dict[str, str]] | None = None,
    **manifest: object,
) -> Path:
    """Write a run that declares files; all that it has, unless others are named."""
    place = directory / "runs" / name
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content.encode() if isinstance(content, str) else content)
    declared = declared or [{"path": path} for path in files]
    (place / "lab.json").write_text(json.dumps({"files": declared, **manifest}))
    return place


def imported(lab: LabServer, place: Path) -> str:
    """Import a run; return its id."""
    answer = lab.post("/api/runs/import", {"path": str(place)})
    assert answer.status_code == 200, answer.text
    run_id: str = answer.json()["runId"]
    return run_id


def comparison(lab: LabServer, *places: Path, **fields: object) -> str:
    """Set up a comparison, the first being the baseline; return its id."""
    baseline, *others = [imported(lab, place) for place in places]
    labels = [place.name for place in places[1:]]
    variants = [{"runId": run, "label": label} for run, label in zip(others, labels, strict=True)]
    body = {"baselineRunId": baseline, "variants": variants, **fields}
    answer = lab.post("/api/experiments", body)
    assert answer.status_code == 200, answer.text
    experiment_id: str = answer.json()["experimentId"]
    return experiment_id


def pair(lab: LabServer, **fields: object) -> str:
    """Set up a comparison of two runs that have nothing but a script."""
    sides = [make_run(lab.directory, f"plain-{name}", "cats") for name in ("one", "two")]
    return comparison(lab, *sides, **fields)


def decide(lab: LabServer, experiment_id: str, **fields: object) -> None:
    """Decide a comparison as another person does: by default a tie."""
    experiment = lab.get(f"/api/experiments/{experiment_id}").json()
    sides = [("baseline", experiment["baselineRunId"])]
    sides += [(each["variantId"], each["runId"]) for each in experiment["variants"]]
    judged = [{"runId": run, "variantId": side} for side, run in sides]
    body = {"perRun": judged, **(fields or {"outcome": "tie"})}
    answer = lab.post(f"/api/experiments/{experiment_id}/submit", body, f"of {experiment_id}")
    assert answer.status_code == 200, answer.text


def entries(lab: LabServer, **wanted: object) -> list[dict[str, Any]]:
    """Return the feedback on disk that has these fields."""
    items, since = [], "0"
    while True:
        page = Journal(paths_in(lab.directory).feedback).read(since)
        items += page.items
        if page.next_cursor == since:
            break
        since = page.next_cursor
    return [each for each in items if all(each.get(key) == wanted[key] for key in wanted)]


def submissions(lab: LabServer, experiment_id: str) -> Counter[str]:
    """Return how many entries of a comparison each request id has."""
    found = entries(lab, experimentId=experiment_id)
    return Counter(each["extra"]["requestId"] for each in found)


def counts_once(lab: LabServer, experiment_id: str, sides: int = 2) -> None:
    """Say that a comparison was decided, by one request and one entry per side."""
    assert list(submissions(lab, experiment_id).values()) == [sides]
    assert lab.get(f"/api/experiments/{experiment_id}").json()["status"] == "done"
