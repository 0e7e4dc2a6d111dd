"""Memory demo: an agent that records facts, is killed, and starts again from the beginning.

Defines the facts; the process that writes them is `fact_writer`.
"""

from __future__ import annotations

from typing import Final

from onceward.client import Onceward
from onceward.demo import leads
from onceward.demo.attempt_log import Attempts
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import DemoProcess, DemoProcesses
from onceward.demo.interleaving import Act, Stage
from onceward.memory import Memory

PART: Final = "memory"
FACTS: Final = 24
WRITE_SECONDS: Final = 20.0
_LATEST: Final = "select lead_id, niche, buyer from demo_assignments order by id desc limit 1"


class MemoryDemo:
    """Records what the demo's agents learn."""

    def __init__(self, stage: Stage, processes: DemoProcesses, world: DemoWorld) -> None:
        """Start no process yet."""
        self._stage, self._processes, self._world = stage, processes, world
        self._attempts = Attempts(world)
        self._learned = 0

    def write_with_kills(self) -> Act:
        """Let an agent write all its facts; kill it twice, and restart it from the first fact."""
        for share in (1 / 3, 2 / 3):
            process = self._start()
            yield from self._until_written(process, self._written() + int(FACTS * share))
            self._processes.kill(process)
            detail = f"the agent that records facts is killed after {self._written()} writes"
            self._stage.tell(PART, f"{detail}; it starts again with the first fact", is_blow=True)
        process = self._start()
        text = f"the agent has written all {FACTS} facts, many of them for the second or third time"
        yield from self._stage.await_event(
            PART, text, lambda: process.exit_code == 0, WRITE_SECONDS
        )

    def learn(self, memory: Memory, ow: Onceward) -> None:
        """Record a sale twice, as an agent does that got no response, and sometimes a fix."""
        rows = ow.store.select(_LATEST)
        self._learned += 1
        for _ in range(2):
            for lead_id, niche, buyer in rows:
                remember_sale(memory, lead_id, niche, buyer)
            write(memory, self._learned)
            remember_fix(memory)

    def _start(self) -> DemoProcess:
        words = (self._world.store_url, str(self._world.home))
        return self._processes.start(PART, "rememberer", *words, module="onceward.demo.fact_writer")

    def _until_written(self, process: DemoProcess, count: int) -> Act:
        yield from self._stage.until(
            lambda: process.has_ended or self._written() >= count, WRITE_SECONDS
        )

    def _written(self) -> int:
        return self._attempts.of(PART).total()


def remember_sale(memory: Memory, lead_id: int, niche: str, buyer: str) -> None:
    """Record to whom a lead was sold."""
    lead = f"lead {lead_id}"
    memory.create_entities(
        [
            {"name": niche, "entityType": "Niche", "observations": []},
            {"name": buyer, "entityType": "Buyer", "observations": []},
            {"name": lead, "entityType": "Lead", "observations": [f"sold to {buyer} for 25 euros"]},
        ]
    )
    links = [
        {"from": lead, "to": buyer, "relationType": "SOLD_TO"},
        {"from": buyer, "to": niche, "relationType": "BUYS_IN"},
    ]
    memory.create_relations(links)


def remember_fix(memory: Memory) -> None:
    """Record an error of sales, its fix, and that the fix was verified."""
    said = "BuyerBusy: the buyer's system did not answer"
    error = memory.record_error(said, kind="BuyerBusy", detector="demo")
    fix = memory.record_fix(error["name"], strategy="try again after half a second")
    memory.record_outcome(
        fix["name"],
        status="verified_successful",
        verification_method="the sale succeeded at the second attempt",
        duration_to_verify=0.5,
    )


def fact(number: int) -> tuple[str, str, str]:
    """Return the buyer, niche and text of a fact."""
    niche = leads.NICHES[number % len(leads.NICHES)]
    buyer = leads.BUYERS[niche][number % 2]
    return buyer, niche, f"call {number}: wants leads in {niche} before noon"


def write(memory: Memory, number: int) -> None:
    """Record one fact: a buyer, a niche, an observation, and a relation."""
    buyer, niche, text = fact(number)
    memory.create_entities(
        [
            {"name": niche, "entityType": "Niche", "observations": []},
            {"name": buyer, "entityType": "Buyer", "observations": [text]},
        ]
    )
    memory.create_relations([{"from": buyer, "to": niche, "relationType": "BUYS_IN"}])
