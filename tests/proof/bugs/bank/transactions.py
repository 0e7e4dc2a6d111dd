"""Bugs of transactions: savepoints, joined calls, SQL that leaves the transaction."""

from typing import Final

from tests.proof.bugs.bug import Bug

_JOINED: Final = "tests/conformance/test_joined_calls.py"
_SAVEPOINTS: Final = "tests/conformance/test_savepoints.py"
_STATEMENTS: Final = "tests/conformance/test_statements.py"

BUGS: Final = (
    Bug(
        id="joined-without-savepoint",
        name="a call inside the caller's transaction has no savepoint",
        harm="The call fails, the caller catches that and commits; the next call writes again.",
        file="outcomes/call_execution.py",
        find="            with tx.nested():\n",
        replace="            with self._outcomes.store.joined(tx):\n",
        test=f"{_JOINED}::test_h49_a_caught_failure_of_a_joined_call_leaves_nothing"
        "[ValueError-written-sqlite]",
        breaks="I3",
    ),
    Bug(
        id="joined-lease-lost-is-undone",
        name="a lost lease undoes the call that met it, and not the transaction",
        harm="A worker that was replaced commits what it wrote before the call.",
        file="stores/savepoints.py",
        find="_FATAL: Final = (LeaseLost, FenceLost)",
        replace="_FATAL: Final = (FenceLost,)",
        test=f"{_JOINED}::test_h49_a_lost_lease_or_fence_ends_the_whole_transaction"
        "[LeaseLost-sqlite]",
        breaks="F1",
    ),
    Bug(
        id="joined-side-by-side",
        name="concurrent calls share the savepoints of one transaction",
        harm="One call of a `gather` fails, and what the other one did is undone with it.",
        file="stores/savepoints.py",
        find="if not _is_inside(outer, surrounding):",
        replace="if outer is not None and not _is_inside(outer, surrounding):",
        test=f"{_JOINED}::test_h49_concurrent_joined_calls_are_rejected[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="savepoints-of-one-name",
        name="every savepoint has the same name",
        harm="Undoing a block undoes less than the block wrote.",
        file="stores/savepoints.py",
        find='name = f"onceward_{self._savepoint_count}"',
        replace='name = "onceward"',
        test=f"{_SAVEPOINTS}::test_h56_two_savepoints_undone_keep_no_rows[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="undo-keeps-hooks",
        name="an undo keeps the hooks that were registered since",
        harm="A call is undone, and its checkpoint is committed: a message is lost.",
        file="stores/savepoints.py",
        find="            del hooks[kept:]\n",
        replace="            assert len(hooks) >= kept\n",
        test=f"{_SAVEPOINTS}::test_undo_drops_the_hooks_that_were_registered_inside[written-sqlite]",
        breaks="W1",
    ),
    Bug(
        id="comment-before-commit",
        name="only the very first word of a statement is looked at",
        harm="A commit after a comment ends the transaction; its fence and its end come too late.",
        file="stores/user_statements.py",
        find='first = words[0] if words else ""',
        replace='first = sql.split(None, 1)[0].lower() if sql.split() else ""',
        test=f"{_STATEMENTS}::test_h56_execute_many_refuses_the_same[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="several-statements",
        name="several statements in one text are sent to PostgreSQL",
        harm="The second one is a commit, and the outcome is not in it.",
        file="stores/user_statements.py",
        find='if has_more and engine == "postgres":',
        replace='if has_more and engine == "sqlite":',
        test=f"{_STATEMENTS}::test_h56_several_statements_in_one_call_are_refused[postgres]",
        breaks="I3",
    ),
    Bug(
        id="comments-do-not-nest",
        name="a comment ends at the first end of any comment",
        harm="PostgreSQL reads on where we stopped, and finds a commit.",
        file="stores/placeholders.py",
        find='is_nested=engine == "postgres")',
        replace="is_nested=False)",
        test=f"{_STATEMENTS}::test_h56_what_only_looks_like_it_runs[postgres]",
        breaks="I3",
    ),
)
