"""The command line: one file per command group, each light to import."""

from onceward.cli.main import main as main

__all__ = ["main"]
