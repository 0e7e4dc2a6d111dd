"""Run simulated schedules by hand: the options first, then what came of it."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.proof.simulation.campaign import Tally, World, repro, run_one
from tests.proof.simulation.simulated_stores import SimulatedStores, simulated_stores
from tests.proof.simulation.worlds import WORLDS

EXAMPLE = """example:
  python -m tests.proof.simulation leases --seed 7 --trace
  python -m tests.proof.simulation parked --seed 0 --count 1000
"""


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.simulation",
        description="Run a world under one seed, or under several from there on.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("world", nargs="?", choices=sorted(WORLDS), help="which; none to list all")
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first (0)")
    parser.add_argument("--count", type=int, default=1, help="how many seeds (1)")
    parser.add_argument("--trace", action="store_true", help="print every step of each schedule")
    asked = parser.parse_args(arguments)
    if asked.world is None:
        for name, kind in sorted(WORLDS.items()):
            print(f"{name:10} {(kind.__doc__ or '').splitlines()[0]}")
        return 0
    kind, tally = WORLDS[asked.world], Tally(asked.world)
    is_shown = asked.trace or asked.count == 1
    with simulated_stores(kind.tables) as stores:
        for seed in range(asked.seed, asked.seed + asked.count):
            world = _tried(kind, seed, stores, is_verbose=asked.trace, is_shown=is_shown)
            if world is None:
                _tell(kind, seed, stores)
                return 1
            tally.add(world)
            if asked.trace:
                print("\n".join(world.simulation.trace))
    _report(tally)
    return 0


def _tried(
    kind: type[World], seed: int, stores: SimulatedStores, *, is_verbose: bool, is_shown: bool
) -> World | None:
    """Run a schedule; None when a promise was broken."""

    def show(world: World) -> None:
        if is_shown:
            print(f"seed {seed}: {world.simulation.options}\n{world.knobs}", flush=True)

    try:
        return run_one(kind, seed, stores, is_verbose=is_verbose, begun=show)
    except Exception:  # noqa: BLE001 - whatever it was, it is reported the second time
        return None


def _tell(kind: type[World], seed: int, stores: SimulatedStores) -> None:
    """Run a schedule that failed once more, as it gives the same, and tell every step."""
    print(f"seed {seed} failed; once more, step by step:")
    try:
        run_one(kind, seed, stores, is_verbose=True)
    except Exception as exc:  # noqa: BLE001 - the one that we want to see
        assert stores.files.simulation is not None
        print("\n".join(stores.files.simulation.trace))
        traceback.print_exception(exc, file=sys.stdout)
    else:
        print("it held the second time: this world is not governed by its seed")
        print(repro(kind.name, seed))


def _report(tally: Tally) -> None:
    print(
        f"{tally.world}: {tally.schedules} schedules held, {tally.steps} steps, {tally.work} pieces"
        f" of work, at rest {tally.settled_seconds:.0f} simulated seconds after the last fault"
    )
    print(f"fingerprint: {tally.fingerprint:08x}")
    for title, counts in (("faults", tally.faults), ("reached", tally.seen)):
        print(f"{title}:")
        for what, count in sorted(counts.items()):
            print(f"  {count:7} {what}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
