"""The command line, run as in the tests of the other commands."""

from tests.support.command_runner import run

__all__ = ["run"]
