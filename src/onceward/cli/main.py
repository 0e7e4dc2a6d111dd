"""The root command: load command groups on demand, and map every failure to an exit code."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from onceward.cli.output import print_error, single
from onceward.errors import Drifted, FileMissing, Internal, InvalidArgument, OncewardError
from onceward.version import __version__

#: Where each group (a Typer app) or single command (a function) is defined, and its summary on the
#: first help page, which imports none of them.
COMMANDS: Final = {
    "up": ("onceward.cli.up:up", "Serve the console until Ctrl-C."),
    "demo": ("onceward.cli.demo:demo", "Kill processes and count work lost or done twice."),
    "doctor": ("onceward.cli.doctor:doctor", "Check the system, the installation and the store."),
    "init": ("onceward.cli.orchestrate:init", "Create a workspace in which agents run tasks."),
    "run": ("onceward.cli.orchestrate:run", "Run tasks: implement, review, update the spec."),
    "resume": ("onceward.cli.orchestrate:resume", "Resume a run after a stop or a crash."),
    "runs": ("onceward.cli.runs:app", "List, show, verify and explain runs."),
    "agent": ("onceward.cli.agent:app", "Wrap any program as an agent, or play a scenario."),
    "lab": ("onceward.cli.lab:app", "Serve the Experiment Lab; review and compare runs."),
    "feedback": ("onceward.cli.feedback:app", "Add, list, export, poll and wait for judgements."),
    "memory": ("onceward.cli.memory:app", "Serve, capture, recall and search agents' memory."),
    "dispatch": ("onceward.cli.dispatch:app", "Deliver chat messages to agents, and replies once."),
    "chat": ("onceward.cli.chat:chat", "Chat with a group's agent in this terminal."),
    "worker": ("onceward.cli.worker:worker", "Run the consumers of an app."),
    "cursors": ("onceward.cli.cursors:app", "List, pause, resume and move cursors."),
    "dead": ("onceward.cli.dead:app", "List, show, redrive and drop dead letters."),
    "status": ("onceward.cli.status:status", "Report unfinished work and how to settle it."),
    "outcomes": ("onceward.cli.outcomes:app", "List and reconcile outcomes of idempotent calls."),
    "token": ("onceward.cli.token:app", "Show or replace the token of this user's servers."),
    "keys": ("onceward.cli.keys:app", "Make, compare and check idempotency keys."),
    "journal": ("onceward.cli.journal:app", "Append to, poll, follow and verify JSON journals."),
    "db": ("onceward.cli.db:app", "Migrate and check a store; prepare an app's tables."),
}
#: The commands of the first help page, by the system they belong to.
SECTIONS: Final = {
    "Start here": ("up", "demo", "doctor"),
    "Orchestrator": ("init", "run", "resume", "runs", "agent"),
    "Experiment Lab": ("lab", "feedback"),
    "Memory": ("memory",),
    "Dispatch": ("dispatch", "chat"),
    "Workers": ("worker", "cursors", "dead"),
    "The core they share": ("status", "outcomes", "token", "keys", "journal", "db"),
}
JSON: Final = "--json"
#: Set it to get the traceback of an internal error.
DEBUG_VARIABLE: Final = "ONCEWARD_DEBUG"
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
#: Files changed since a run recorded them, and no option said what to do.
EXIT_DRIFTED: Final = 3


class LazyGroup(TyperGroup):
    """A group that imports a command's module when that command is named."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - Typer's signature
        """Return the names, in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - Typer's signature
        """Import the module of a command and return the command."""
        if cmd_name not in COMMANDS:
            return None
        place, summary = COMMANDS[cmd_name]
        if self._is_listing:
            return TyperCommand(cmd_name, help=summary, short_help=summary)
        module, _, attribute = place.partition(":")
        found = getattr(import_module(module), attribute)
        made = found if isinstance(found, typer.Typer) else single(found)
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - Typer's signature
        """Write the first help page's list from the summaries, by system."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's signature
        """Move a `--json` before the command to the command."""
        if args[:1] == [JSON] and len(args) > 1:
            args = self._with_json_after_command(ctx, args[1:])
        return super().parse_args(ctx, args)

    def _with_json_after_command(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's
        """Insert the option right after the command: later words may belong to another program."""
        command, words = self.get_command(ctx, args[0]), 1
        while isinstance(command, TyperGroup) and args[words : words + 1]:
            command = command.get_command(ctx, args[words])
            words += command is not None
        return [*args[:words], JSON, *args[words:]]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - Typer's signature
        """Complete the first word from the summaries, without importing the commands."""
        self._is_listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._is_listing = False


#: The first page is plain: importing rich takes longer than everything else.
app = typer.Typer(cls=LazyGroup, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"onceward {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    _json: Annotated[
        bool, typer.Option(JSON, help="Print JSON; the same as --json after the command.")
    ] = False,
) -> None:
    """Make agent and worker systems safe to crash, retry and resume.

    Example: `onceward up` starts the server; `onceward doctor` checks this machine.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def exit_code(kind: type[OncewardError]) -> int:
    """Return the exit code for an error class."""
    if issubclass(kind, Drifted):
        return EXIT_DRIFTED
    return EXIT_USAGE if issubclass(kind, (InvalidArgument, FileMissing)) else EXIT_FAILED


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 bad usage or input, 3 drifted."""
    try:
        result = typer.main.get_command(app).main(prog_name="onceward", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(result if isinstance(result, int) else 0)
    except OncewardError as exc:
        print_error(exc)
        sys.exit(exit_code(type(exc)))
    except typer.TyperException as exc:
        context = getattr(exc, "ctx", None)
        asked = context.command_path if context is not None else "onceward"
        print_error(InvalidArgument(exc.format_message(), fix=f"see `{asked} --help`"))
        sys.exit(EXIT_USAGE)
    except BrokenPipeError:
        # The reader closed the pipe. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(128 + signal.SIGINT)
    except Exception as exc:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        fix = f"set {DEBUG_VARIABLE}=1 for the traceback, and please report it"
        print_error(Internal(f"{type(exc).__name__}: {exc}", fix=fix))
        sys.exit(EXIT_FAILED)
