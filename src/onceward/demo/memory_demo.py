"""Memory demo: an agent that records facts, is killed, and starts again from the beginning.

What it writes is here, too; the process that writes it is `fact_writer`.
"""

from __future__ import annotations

from typing import Final

from onceward.client import Onceward
from onceward.demo import leads
from onceward.demo.attempt_log import Attempts
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import Cast, Player
from onceward.demo.interleaving import Act, Stage
from onceward.memory import Memory

PART: Final = "memory"
FACTS: Final = 24
WRITE_SECONDS: Final = 20.0
_LATEST: Final = "select lead_id, niche, buyer from demo_assignments order by id desc limit 1"


class Notes:
    """What the agents of a story remember."""

    def __init__(self, stage: Stage, cast: Cast, world: DemoWorld) -> None:
        """Remember nothing yet."""
        self._stage, self._cast, self._world = stage, cast, world
        self._attempts = Attempts(world)
        self._learned = 0

    def remember(self) -> Act:
        """Let an agent write all it knows; kill it twice, and let it begin again each time."""
        for share in (1 / 3, 2 / 3):
            player = self._start()
            yield from self._until_written(player, self._written() + int(FACTS * share))
            self._cast.kill(player)
            detail = f"the agent that remembers is killed after {self._written()} writes"
            self._stage.tell(PART, f"{detail}; it begins again from the first fact", is_blow=True)
        player = self._start()
        text = f"the agent has written all {FACTS} facts, many of them for the second or third time"
        yield from self._stage.see(PART, text, lambda: player.exit_code == 0, WRITE_SECONDS)

    def learn(self, memory: Memory, ow: Onceward) -> None:
        """Remember a sale, twice, as an agent does that got no answer; and what was learned."""
        rows = ow.store.select(_LATEST)
        self._learned += 1
        for _ in range(2):
            for lead_id, niche, buyer in rows:
                remember_sale(memory, lead_id, niche, buyer)
            write(memory, self._learned)
            remember_fix(memory)

    def _start(self) -> Player:
        words = (self._world.store_url, str(self._world.home))
        return self._cast.start(PART, "rememberer", *words, module="onceward.demo.fact_writer")

    def _until_written(self, player: Player, count: int) -> Act:
        yield from self._stage.until(
            lambda: player.has_ended or self._written() >= count, WRITE_SECONDS
        )

    def _written(self) -> int:
        return self._attempts.of(PART).total()


def remember_sale(memory: Memory, lead_id: int, niche: str, buyer: str) -> None:
    """Write to whom a lead was sold."""
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
    """Write what goes wrong at sales, what was done about it, and that it helped."""
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
    """Return the buyer, the niche and the text of a fact."""
    niche = leads.NICHES[number % len(leads.NICHES)]
    buyer = leads.BUYERS[niche][number % 2]
    return buyer, niche, f"call {number}: wants leads in {niche} before noon"


def write(memory: Memory, number: int) -> None:
    """Write one fact: a buyer, a niche, what was said, and how they belong together."""
    buyer, niche, text = fact(number)
    memory.create_entities(
        [
            {"name": niche, "entityType": "Niche", "observations": []},
            {"name": buyer, "entityType": "Buyer", "observations": [text]},
        ]
    )
    memory.create_relations([{"from": buyer, "to": niche, "relationType": "BUYS_IN"}])
