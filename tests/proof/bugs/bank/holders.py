"""Bugs around agents: who holds the dispatcher's lease, and what a message can pose as."""

from typing import Final

from tests.proof.bugs.bug import Bug

_IDENTITY: Final = "system/process_identity.py"
_PROMPTS: Final = "agents/prompts.py"
_HOLDERS: Final = "tests/system/test_dispatch_holders.py"
_SPEAKERS: Final = "tests/unit/agents/test_chat_speakers.py"

BUGS: Final = (
    Bug(
        id="pid-of-elsewhere",
        name="a pid of another boot or pid namespace is looked up here",
        harm="Two dispatchers in two containers take each other's live lease, again and again.",
        file=_IDENTITY,
        find="        if not self.is_in_this_namespace():\n            return False\n",
        replace="",
        test=f"{_HOLDERS}::test_h69_a_holder_that_cannot_be_seen_from_here_is_waited_for"
        "[sqlite-pid namespace]",
        breaks="X4",
    ),
    Bug(
        id="pid-without-start",
        name="a process that has the pid of a dead holder is taken for the holder",
        harm="After a restart nothing is answered until the lease of the dead expires.",
        file=_IDENTITY,
        find="        return now is not None and now.started_ticks != self.started_ticks\n",
        replace="        return now is None and self.started_ticks < 0\n",
        test="tests/unit/system/test_process_identity.py"
        "::test_a_process_is_dead_when_it_was_reaped_or_its_pid_is_anothers",
        breaks="X4",
    ),
    Bug(
        id="text-speaks-for-others",
        name="a new line in a chat message begins at the edge of the prompt",
        harm="A message holds a line that another person seems to have said.",
        file=_PROMPTS,
        find="    return _LINE_END.sub(lambda end: end[0] + _INDENT, text)\n",
        replace="    return text\n",
        test=f"{_SPEAKERS}::test_h68_every_message_is_read_as_its_senders",
        breaks="X6",
    ),
    Bug(
        id="name-speaks-for-others",
        name="every name is shown as it is",
        harm="A person whose name holds a colon or a new line speaks for another.",
        file=_PROMPTS,
        find="    if _PLAIN_NAME.fullmatch(text):\n",
        replace="    if _PLAIN_NAME.pattern:\n",
        test=f"{_SPEAKERS}::test_h68_no_text_speaks_in_the_frame_of_a_prompt",
        breaks="X6",
    ),
    Bug(
        id="message-is-option",
        name="a message is passed to a program as it is",
        harm="Who writes `--yes-always` in the chat switches an option of the agent on.",
        file=_PROMPTS,
        find="""    return (" " if is_risky else "") + text.replace""",
        replace="    return text.replace",
        test=f"{_SPEAKERS}::test_h68_no_argument_begins_like_an_option",
        breaks="X6",
    ),
)
