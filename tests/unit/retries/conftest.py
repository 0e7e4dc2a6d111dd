"""The command line, as the tests of other commands call it."""

from tests.support.command_runner import run as run  # noqa: PLC0414 - a fixture, given on
