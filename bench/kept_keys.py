"""Measure whether an idempotent call gets slower when more outcomes are stored."""

import tempfile
from pathlib import Path

from bench.engines import both
from bench.messages import COUNTING
from bench.once import functions
from bench.table import Row, growth
from bench.timing import Numbered, Round, Run, Seconds, turns
from bench.units import micro
from onceward.client import Onceward

#: Columns of an outcome that are the same for all of these.
SAME = "scope, fingerprint, state, fence, owner, on_crash, claimed_at, updated_at, result"


def with_history(ow: Onceward, count: int) -> Round:
    """Let so many keys have outcomes, copies of a real one; return rounds of new keys."""
    plain, _ = functions(ow)
    plain(0)
    with ow.transaction() as tx:
        tx.execute(
            f"insert into onceward_outcomes (key, {SAME}) {COUNTING.format(count)}"
            f" select 'old#' || i, {SAME} from n, onceward_outcomes where key = 'plain#0'"
        )
        tx.execute("analyze")
    return Numbered(plain, 100, first=1)


def compared(run: Run, few: Onceward, many: Onceward) -> dict[str, Seconds]:
    rounds = {
        "few": with_history(few, 1_000),
        "many": with_history(many, run.size(1_000_000, quick=5_000)),
    }
    return turns(rounds, run.repetitions(9))


def rows(run: Run) -> list[Row]:
    table = []
    with tempfile.TemporaryDirectory() as name, both(Path(name)) as stores:
        for engine, opened in stores.items():
            with opened("few") as few, opened("many") as many:
                found = compared(run, few, many)
            beside = growth("with 1,000", found["few"], 1.3)
            work = f"`@once` on {engine}, a new key beside 1,000,000 kept ones"
            table.append(Row(work=work, ours=found["many"], shown=micro, besides=(beside,)))
    return table
