"""Original roots: files as the original Lab, a Node program, writes them.

Its times are floats, its idempotency lines hold no entity, no fingerprint and no state, and its
feedback ids are bare UUIDs.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from onceward.journal import Record
from onceward.lab.lab_paths import LabPaths

NOW = "2026-02-06T10:20:30.456Z"
SESSION = "lab_0c8ae2f2-3a52-4c6a-9a5e-2f8a5c1f7a10"


class OriginalRoot:
    """One root, and what the original's server appends to it for each request of its page."""

    def __init__(self, paths: LabPaths) -> None:
        self.paths = paths

    def run(self, place: Path, **fields: Any) -> Record:
        """Import a directory: `fs.stat` gives the times, and the paths are not resolved."""
        files = {"video": place / "video.mp4", "script": place / "script.json"}
        record = {
            "schemaVersion": 1,
            "runId": f"run_{uuid.uuid4()}",
            "sessionId": SESSION,
            "createdAt": NOW,
            "topic": "cats",
            "artifactsDir": str(place),
            "artifactsDirRealpath": str(place.resolve()),
            "fingerprint": {
                name: stat(path, mtime_ms(path.stat().st_mtime_ns))
                for name, path in files.items()
                if path.exists()
            },
            "reports": {},
            "autoMetricsSummary": {
                "syncRating": None,
                "captionOverall": None,
                "proxyScoreOverall": None,
            },
            **fields,
        }
        if not record["fingerprint"]:
            del record["fingerprint"]
        if files["video"].exists():
            record["videoPath"] = str(files["video"])
        return append(self.paths.runs, record)

    def experiment(self, baseline: Record, variant: Record, **fields: Any) -> Record:
        """Set up a comparison as its page does."""
        record = {
            "schemaVersion": 1,
            "experimentId": f"exp_{uuid.uuid4()}",
            "sessionId": SESSION,
            "createdAt": NOW,
            "name": "A/B Compare",
            "baselineRunId": baseline["runId"],
            "variants": [
                {"variantId": f"var_{uuid.uuid4()}", "label": "B", "runId": variant["runId"]}
            ],
            "status": "queued",
            **fields,
        }
        return append(self.paths.experiments, record)

    def feedback(self, request_id: str, run: Record, fields: Record, session: str = SESSION) -> str:
        """Answer a review of a run, and note the request id."""
        entry = self._entry(session, run, **fields)
        self._note(session, request_id, "feedback", {"feedbackId": entry["id"]})
        return str(entry["id"])

    def submission(self, request_id: str, experiment: Record, body: Record) -> Record:
        """Answer a submission of its compare page, and note the request id."""
        ids = []
        for each in body["perRun"]:
            said = {name: each[name] for name in ("variantId", "ratings", "notes") if name in each}
            about = {"experimentId": experiment["experimentId"], "answers": body["answers"]}
            entry = self._entry(SESSION, {"runId": each["runId"]}, **about, **said)
            ids.append(entry["id"])
        decided = {**experiment, "status": "done", "answers": body["answers"], "updatedAt": NOW}
        if body.get("winnerVariantId"):
            decided["winner"] = {"variantId": body["winnerVariantId"]}
            if body.get("reason"):
                decided["winner"]["reason"] = body["reason"]
        append(self.paths.experiments, decided)
        response = {"experimentId": experiment["experimentId"], "feedbackIds": ids}
        self._note(SESSION, request_id, "experiment_submit", response)
        return response

    def _entry(self, session: str, run: Record, **fields: Any) -> Record:
        entry = {"schemaVersion": 1, "id": str(uuid.uuid4()), "createdAt": NOW}
        about = {"sessionId": session, "runId": run["runId"], "topic": "cats"}
        return append(self.paths.feedback, {**entry, **about, **fields})

    def _note(self, session: str, request_id: str, kind: str, response: Record) -> None:
        line = {"schemaVersion": 1, "requestId": request_id, "type": kind, "response": response}
        append(self.paths.requests(session), {**line, "createdAt": NOW})


def mtime_ms(mtime_ns: int) -> float:
    """Return a time as Node's `stat.mtimeMs` has it: a float, rounded as floats are."""
    seconds, rest = divmod(mtime_ns, 10**9)
    return seconds * 1000 + rest / 1e6


def stat(path: Path, mtime: float) -> Record:
    return {"path": str(path), "sizeBytes": path.stat().st_size, "mtimeMs": mtime}


def swipe(experiment: Record, **fields: Any) -> Record:
    """Return what the original's compare page submits by default, without answered questions."""
    variant = experiment["variants"][0]
    return {
        "winnerVariantId": variant["variantId"],
        "answers": {"mode": "swipe", "confidence": 70, "activeVariantId": None},
        "perRun": [
            {
                "runId": experiment["baselineRunId"],
                "variantId": "baseline",
                "ratings": {"overall": 20},
            },
            {
                "runId": variant["runId"],
                "variantId": variant["variantId"],
                "ratings": {"overall": 80},
                "notes": "clearer",
            },
        ],
        **fields,
    }


def append(path: Path, record: Record) -> Record:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return record
