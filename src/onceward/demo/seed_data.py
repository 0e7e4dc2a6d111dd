"""Seed data: create the initial runs and experiments of the endless demo, and its chat messages."""

from __future__ import annotations

import json
from typing import Final

from onceward.demo.demo_home import DemoWorld
from onceward.journal import atomic_file
from onceward.lab.lab import Lab
from onceward.lab.request_models import NewExperiment, Submission
from onceward.system import SystemFiles

_STYLES: Final = {
    "plain": ("A plain offer", "Leads for roofers. Each lead once, 25 euros.\n"),
    "friendly": (
        "A friendly offer",
        "Dear roofers, a roof near you leaks. We know whose. 25 euros, and the address is yours.\n",
    ),
    "short": ("A short offer", "A roof leaks. 25 euros.\n"),
}
#: Rules of the scripted agents in the endless demo; some messages make them fail.
RULES: Final = (
    {"when": "meaning", "do": [{"fail": "the model does not know what to say"}]},
    {
        "when": "today",
        "do": [
            {"fail": "the model is overloaded", "once": True},
            {"delay": 1.0},
            {"reply": "I have looked it up twice. The list is in your mail, {sender}."},
        ],
    },
    {"when": "bill", "do": [{"delay": 3.0}, {"reply": "It is on its way to you, {sender}."}]},
    {"when": "niches", "do": [{"delay": 0.6}, {"reply": "Roofing, solar, plumbing and gardens."}]},
    {"do": [{"delay": 0.6}, {"reply": "Noted, {sender}."}]},
)
#: Group, sender and text of the messages, sent in a loop.
TALK: Final = (
    ("sales", "ann", "which niches do you have?"),
    ("support", "bob", "my lead does not answer the telephone"),
    ("sales", "ann", "who bought leads today?"),
    ("support", "cleo", "where is my bill?"),
    ("sales", "dan", "I would like two leads in solar"),
    ("support", "bob", "she called back, today of all days!"),
)
_QUESTIONS: Final = [{"id": "q1", "prompt": "Would you answer it?", "type": "yes_no_unsure"}]


def create_runs(world: DemoWorld, lab: Lab) -> list[str]:
    """Write outputs of agents, and import them as runs; return the run ids."""
    files = SystemFiles()
    found = []
    for name, (title, text) in _STYLES.items():
        folder = world.made / name
        files.make_directories(folder)
        manifest = {
            "title": title,
            "topic": "offers to roofers",
            "prompt": f"Write the offer to roofers, in a {name} tone.",
            "files": [{"path": "offer.md", "label": "The offer", "kind": "markdown"}],
        }
        atomic_file.write(folder / "offer.md", f"# {title}\n\n{text}".encode())
        atomic_file.write(folder / "lab.json", json.dumps(manifest).encode())
        found.append(lab.import_run(str(folder)).run_id)
    return found


def create_experiments(lab: Lab, run_ids: list[str]) -> None:
    """Create two experiments: one with a decision, and one that waits for judgements."""
    plain, friendly, short = run_ids
    decided = lab.create_experiment(
        _experiment("shorter", plain, short, "Shorter is answered more.")
    )
    lab.submit(
        decided.experiment_id,
        Submission.model_validate(
            {
                "outcome": "winner",
                "winnerVariantId": decided.variants[0].variant_id,
                "perRun": [
                    {"variantId": "baseline", "runId": plain, "ratings": {"overall": 50}},
                    {
                        "variantId": decided.variants[0].variant_id,
                        "runId": short,
                        "ratings": {"overall": 80},
                    },
                ],
            }
        ),
        "demo-decided",
    )
    lab.create_experiment(_experiment("friendlier", plain, friendly, "Friendly is answered more."))


def _experiment(name: str, baseline: str, variant: str, hypothesis: str) -> NewExperiment:
    return NewExperiment.model_validate(
        {
            "name": name,
            "hypothesis": hypothesis,
            "topic": "offers to roofers",
            "baselineRunId": baseline,
            "variants": [{"runId": variant, "label": name}],
            "questions": _QUESTIONS,
        }
    )
