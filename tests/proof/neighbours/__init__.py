"""Neighbours: what shares a process, a file or a machine with the store and acts on its own."""
