"""The safety rule: commands that repeat, discard or overwrite work need `--yes`."""

import itertools

from tests.support.command_runner import Run
from tests.unit.cli.test_main import COMMANDS

#: Each repeats, discards or overwrites something; every other command has no `--yes`.
NEED_YES = {
    ("cursors", "seek"),
    ("cursors", "undo"),
    ("dead", "drop"),
    ("dead", "redrive"),
    ("db", "prepare"),
    ("dispatch", "groups", "remove"),
    ("dispatch", "replay"),
    ("memory", "export"),
    ("memory", "merge"),
    ("outcomes", "forget"),
    ("outcomes", "prune"),
    ("outcomes", "reconcile"),
    ("token", "rotate"),
}
#: Names that such a flag does not have.
OTHER_NAMES = {"--apply", "--confirm", "--do", "--dry-run", "--really", "--no-dry-run"}


def options(words: tuple[str, ...]) -> set[str]:
    found = ((*each.opts, *each.secondary_opts) for each in COMMANDS[words].params)
    return set(itertools.chain.from_iterable(found))


def test_the_flag_has_one_name() -> None:
    """`--yes`, and only where it is needed."""
    found = {words for words in COMMANDS if "--yes" in options(words)}
    assert found == NEED_YES
    for words in COMMANDS:
        assert not options(words) & OTHER_NAMES, words


def test_a_token_is_replaced_only_with_yes(run: Run) -> None:
    """Clients that send the old one would be rejected."""
    token = run("token", "rotate", "--yes").out
    plan = run("token", "rotate")
    assert (plan.code, plan.out.splitlines()[-1]) == (0, "nothing was changed; pass --yes to apply")
    assert run("token", "rotate", "--json").json["applied"] is False
    assert run("token", "show").out == token
    assert run("token", "rotate", "--yes", "--json").json["applied"] is True
    assert run("token", "show").out != token
