"""Peers: programs that do the peer's side of the work, in environments of the peers' own.

Nothing of Onceward is imported here: it is not installed there.
"""
