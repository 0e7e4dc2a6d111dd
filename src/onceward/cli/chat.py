"""`onceward chat`: talk with a group's agent from a terminal, or through a pipe."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.dispatch_looks import visible, words
from onceward.cli.output import JsonFlag, print_error, print_json, warn
from onceward.cli.stopping import interrupt, on_stop
from onceward.errors import OncewardError, Retryable
from onceward.seams import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceward.cli.chat_talk import Talk
    from onceward.dispatch.models import Message, Reply
    from onceward.handle import Onceward

LOOK_SECONDS: Final = 0.1
PROMPT: Final = "> "
#: A dispatcher may start again for so long before we give up on it.
ABSENT_SECONDS_MAX: Final = 5.0
#: Whoever begins something is between two looks for a moment; so quiet is what is so twice.
_QUIET_LOOKS: Final = 2
_START: Final = "start `onceward dispatch serve`, or add --run-agents"


def chat(
    group: GroupName,
    sender: Annotated[
        str | None, typer.Option(help="Who talks; you, unless told otherwise.")
    ] = None,
    history: Annotated[
        int, typer.Option(help="Show so much of what was said before.", min=0, max=200)
    ] = 10,
    run_agents: Annotated[
        bool, typer.Option("--run-agents", help="Run the agents of the store here, if nobody does.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="With piped input: give up waiting after so many seconds; exit 1.", min=0
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Talk with a group's agent: a line is a message, Ctrl-D ends it.

    With piped input every line is sent, replies go to standard output, and it ends when all is
    answered; exit 1 when the agent failed. What was said is in the store either way.

    Example: `onceward chat team --run-agents`
    """
    from onceward.cli.chat_talk import Talk
    from onceward.cli.dispatch import conversations, me
    from onceward.handle import open as open_handle

    is_person = sys.stdin.isatty() and sys.stdout.isatty() and not json_output
    with on_stop(interrupt), open_handle(store) as ow:
        # What was said before is for people; a program wants answers to what it says.
        before = conversations(ow).last(group, history or 1)
        talk = Talk(ow, group, sender or me(), before.next_place)
        screen = _Screen(is_person=is_person, is_json=json_output)
        with _agents(ow, is_wanted=run_agents):
            if is_person:
                screen.show(before.items if history else ())
                _greet(talk, is_alone=not run_agents)
            with _following(talk, screen):
                _say_all(talk, screen)
                if not is_person:
                    _wait(talk, timeout)
        screen.show(talk.news())
        if not is_person:
            talk.check()


def _greet(talk: Talk, *, is_alone: bool) -> None:
    print(f"you are in {talk.group}; Ctrl-D ends it", file=sys.stderr)
    if is_alone and not talk.is_attended:
        warn(f"nobody hands messages to agents now; what you say is kept. To be answered, {_START}")


@contextmanager
def _agents(ow: Onceward, *, is_wanted: bool) -> Iterator[None]:
    """Run the agents of the store meanwhile; another process that does so goes first."""
    if not is_wanted:
        yield
        return
    import logging

    from onceward.cli.dispatch_serve import home_of
    from onceward.dispatch.dispatcher import Dispatcher

    # Failures are told here, in other words, as whoever talks sees them.
    log = logging.getLogger("onceward")
    level = log.level
    log.setLevel(logging.ERROR)
    dispatcher = Dispatcher(ow, home=home_of(ow.store), poll_seconds=LOOK_SECONDS)
    dispatcher.start()
    try:
        yield
    finally:
        dispatcher.stop()
        log.setLevel(level)


# --- saying -------------------------------------------------------------------------------------


def _say_all(talk: Talk, screen: _Screen) -> None:
    """Send every line; what cannot be sent is told, and a person may say it otherwise."""
    for text in screen.lines():
        if not text.strip():
            continue
        try:
            talk.say(text)
        except OncewardError as exc:
            if not screen.is_person:
                raise
            print_error(exc)


# --- hearing ------------------------------------------------------------------------------------


@contextmanager
def _following(talk: Talk, screen: _Screen) -> Iterator[None]:
    """Show what is said meanwhile, from a thread of its own."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(LOOK_SECONDS):
            # Nothing is lost when the store is away for a moment: the next look begins there.
            with suppress(OncewardError):
                screen.show(talk.news())
                if said := talk.trouble():
                    screen.note(said)

    thread = threading.Thread(target=follow, name="onceward-chat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _wait(talk: Talk, timeout: float | None) -> None:
    """Wait until all is answered; Retryable when that will not be."""
    from onceward.cli.chat_talk import is_waiting

    clock = SystemClock()
    began = attended = clock.monotonic()
    quiet = 0
    while quiet < _QUIET_LOOKS:
        status, now = talk.status(), clock.monotonic()
        quiet = 0 if is_waiting(status) else quiet + 1
        kept = f"what you said is kept; see `onceward dispatch tail {talk.group}`"
        if quiet == 0 and status.group.is_paused and status.in_flight is None:
            message = f"{talk.group} is paused, so nobody answers now"
            raise Retryable(message, fix=f"onceward dispatch groups set {talk.group} --resume")
        attended = now if quiet or talk.is_attended else attended
        if now - attended > ABSENT_SECONDS_MAX:
            message = "nobody hands messages to agents, so nobody answers now"
            raise Retryable(message, fix=f"{_START}; {kept}")
        if timeout is not None and now - began > timeout:
            message = f"not all was answered within {timeout:g} seconds"
            raise Retryable(message, fix=kept)
        clock.sleep(LOOK_SECONDS)


# --- the screen ---------------------------------------------------------------------------------


class _Screen:
    """Where things are said and shown; a person's half-written line survives what is shown."""

    def __init__(self, *, is_person: bool, is_json: bool) -> None:
        self.is_person = is_person
        self._is_json = is_json
        self._lock = threading.Lock()
        self._is_asking = False
        self._readline: Any = None
        if is_person:
            with suppress(ImportError):  # Not every Python has it; then lines are less comfortable.
                import readline

                self._readline = readline

    def lines(self) -> Iterator[str]:
        """Yield what is said, line by line, until its end."""
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

    def show(self, items: Iterable[Message | Reply]) -> None:
        """Show what was said: to a person with names, to a program what an agent says."""
        for item in items:
            if self._is_json:
                from onceward.dispatch.views import plain_item

                print_json(plain_item(item))
            elif self.is_person:
                self._print(words(item))
            elif hasattr(item, "key"):
                print(item.text if not sys.stdout.isatty() else visible(item.text), flush=True)

    def note(self, said: str) -> None:
        """Tell something that nobody said in the conversation."""
        if self.is_person:
            self._print(f"({visible(said)})")
        else:
            warn(visible(said))

    def _print(self, text: str) -> None:
        with self._lock:
            is_asking = self._is_asking
            begun = self._readline.get_line_buffer() if is_asking and self._readline else ""
            # Over the line that is being written, which then stands below.
            erase = "\r\x1b[K" if is_asking and os.environ.get("TERM", "dumb") != "dumb" else ""
            rest = f"{PROMPT}{begun}" if is_asking else ""
            sys.stdout.write(f"{erase}{text}\n{rest}")
            sys.stdout.flush()
