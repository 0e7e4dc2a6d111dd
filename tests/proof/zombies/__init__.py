"""Zombies: processes that freeze and wake up late, clocks that are wrong, and wires that break."""
