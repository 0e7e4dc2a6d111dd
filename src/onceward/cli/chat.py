"""`onceward chat`: chat with a group's agent from a terminal or a pipe."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.dispatch_format import visible, words
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.output import print_error, print_json, user_name, warn
from onceward.cli.stop_signals import interrupt, on_stop
from onceward.cli.store_option import StoreUrl
from onceward.errors import OncewardError, Retryable
from onceward.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceward.cli.chat_session import ChatSession
    from onceward.client import Onceward
    from onceward.dispatch.models import GroupMessage, Reply

POLL_SECONDS: Final = 0.1
PROMPT: Final = "> "
#: How long to wait for a dispatcher that restarts.
ABSENT_SECONDS_MAX: Final = 5.0
#: Polls without work before all is answered: an agent may start between two polls.
_QUIET_POLLS: Final = 2
_START: Final = "start `onceward dispatch serve`, or add --run-agents"


def chat(
    group: GroupName,
    sender: Annotated[str | None, typer.Option(help="The sender. Default: your user name.")] = None,
    history: Annotated[
        int, typer.Option(help="On a terminal: show this many earlier items.", min=0, max=200)
    ] = 10,
    run_agents: Annotated[
        bool,
        typer.Option(
            "--run-agents",
            help="Run the agents of all groups until this command ends, unless a dispatcher runs. "
            "Default: wait for a dispatcher.",
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="With piped input or --json: give up after this many seconds; exit 1. "
            "Default: never.",
            min=0,
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json", help="Print each reply, and each message of others, as a line of JSON."
        ),
    ] = False,
) -> None:
    """Chat with a group's agent: each line is a message, Ctrl-D ends.

    With piped input or --json, replies go to standard output, and the command ends when all lines
    are answered. Its exit code is then 1 if the agent failed for good, the group is paused, no
    dispatcher runs for five seconds, or --timeout has passed. Messages stay stored in any case.
    Exit 1 also if there is no such group.

    Example: `onceward chat team --run-agents`
    """
    from onceward.cli.chat_session import ChatSession
    from onceward.cli.dispatch import conversations
    from onceward.client import open as open_handle

    is_person = sys.stdin.isatty() and sys.stdout.isatty() and not json_output
    with on_stop(interrupt), open_handle(store) as ow:
        # Earlier items are for people; a program gets only replies to its own messages.
        before = conversations(ow).last(group, history or 1)
        session = ChatSession(ow, group, sender or user_name(), before.next_place)
        screen = _Screen(is_person=is_person, is_json=json_output)
        with _agents(ow, is_wanted=run_agents):
            if is_person:
                screen.show(before.items if history else ())
                _greet(session, is_alone=not run_agents)
            with _following(session, screen):
                _send_all(session, screen)
                if not is_person:
                    _wait(session, timeout)
        screen.show(session.news())
        if not is_person:
            session.check()


def _greet(session: ChatSession, *, is_alone: bool) -> None:
    print(f"you are in {session.group}; Ctrl-D ends it", file=sys.stderr)
    if is_alone and not session.is_attended:
        warn(f"no dispatcher runs, so your messages wait. To get replies, {_START}")


@contextmanager
def _agents(ow: Onceward, *, is_wanted: bool) -> Iterator[None]:
    """Run the store's agents while the block runs, unless another process does."""
    if not is_wanted:
        yield
        return
    import logging

    from onceward.cli.dispatch_serve import home_of
    from onceward.dispatch.dispatcher import Dispatcher

    # Failures are printed by this command, with a hint for the user.
    log = logging.getLogger("onceward")
    level = log.level
    log.setLevel(logging.ERROR)
    dispatcher = Dispatcher(ow, home=home_of(ow.store), poll_seconds=POLL_SECONDS)
    dispatcher.start()
    try:
        yield
    finally:
        dispatcher.stop()
        log.setLevel(level)


# --- input -------------------------------------------------------------------------------------


def _send_all(session: ChatSession, screen: _Screen) -> None:
    """Send every line; on a terminal a failure is printed and the chat continues."""
    for text in screen.lines():
        if not text.strip():
            continue
        try:
            session.say(text)
        except OncewardError as exc:
            if not screen.is_person:
                raise
            print_error(exc)


# --- output ------------------------------------------------------------------------------------


@contextmanager
def _following(session: ChatSession, screen: _Screen) -> Iterator[None]:
    """Show new items while the block runs, from a thread."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(POLL_SECONDS):
            # Nothing is lost while the store is unavailable: the next poll resumes from there.
            with suppress(OncewardError):
                screen.show(session.news())
                if text := session.trouble():
                    screen.note(text)

    thread = threading.Thread(target=follow, name="onceward-chat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _wait(session: ChatSession, timeout: float | None) -> None:
    """Wait until all messages are answered; Retryable if they will not be."""
    from onceward.cli.chat_session import is_waiting

    clock = SystemClock()
    began = attended = clock.monotonic()
    quiet = 0
    while quiet < _QUIET_POLLS:
        status, now = session.status(), clock.monotonic()
        quiet = 0 if is_waiting(status) else quiet + 1
        kept = f"your messages are stored; see `onceward dispatch tail {session.group}`"
        if quiet == 0 and status.group.is_paused and status.in_flight is None:
            message = f"{session.group} is paused; your messages are stored and wait for its resume"
            resume = f"onceward dispatch groups set {session.group} --resume"
            raise Retryable(message, fix=f"run `{resume}`")
        attended = now if quiet or session.is_attended else attended
        if now - attended > ABSENT_SECONDS_MAX:
            message = "no dispatcher is running, so there is no reply"
            raise Retryable(message, fix=f"{_START}; {kept}")
        if timeout is not None and now - began > timeout:
            message = f"not all messages were answered within {timeout:g} seconds"
            raise Retryable(message, fix=kept)
        clock.sleep(POLL_SECONDS)


# --- the screen ---------------------------------------------------------------------------------


class _Screen:
    """Input and output; on a terminal a half-typed line survives new output."""

    def __init__(self, *, is_person: bool, is_json: bool) -> None:
        self.is_person = is_person
        self._is_json = is_json
        self._lock = threading.Lock()
        self._is_asking = False
        self._readline: Any = None
        if is_person:
            with suppress(
                ImportError
            ):  # Not every Python has readline; without it, lines cannot be edited.
                import readline

                self._readline = readline

    def lines(self) -> Iterator[str]:
        """Yield the input line by line."""
        if not self.is_person:
            for text in sys.stdin:
                yield text.removesuffix("\n")
            return
        while True:
            self._is_asking = True
            try:
                text = input(PROMPT)
            except EOFError:
                print()
                return
            finally:
                self._is_asking = False
            yield text

    def show(self, items: Iterable[GroupMessage | Reply]) -> None:
        """Print items: on a terminal with names, to a pipe only replies."""
        for item in items:
            if self._is_json:
                from onceward.dispatch.views import plain_item

                print_json(plain_item(item))
            elif self.is_person:
                self._print(words(item))
            elif hasattr(item, "key"):
                print(item.text if not sys.stdout.isatty() else visible(item.text), flush=True)

    def note(self, text: str) -> None:
        """Print a note that is not part of the conversation."""
        if self.is_person:
            self._print(f"({visible(text)})")
        else:
            warn(visible(text))

    def _print(self, text: str) -> None:
        with self._lock:
            is_asking = self._is_asking
            begun = self._readline.get_line_buffer() if is_asking and self._readline else ""
            # Erase the half-typed line; it is printed again below.
            erase = "\r\x1b[K" if is_asking and os.environ.get("TERM", "dumb") != "dumb" else ""
            rest = f"{PROMPT}{begun}" if is_asking else ""
            sys.stdout.write(f"{erase}{text}\n{rest}")
            sys.stdout.flush()
