"""Bugs of connections that are lent to an ORM, and of transactions that a framework commits."""

from typing import Final

from tests.proof.bugs.bug import Bug

_LENT: Final = "tests/conformance/test_lent_connections.py"
_RECIPES: Final = "tests/conformance/test_orm_recipes.py"
_PROVIDERS: Final = "tests/conformance/workers/test_transaction_providers.py"

BUGS: Final = (
    Bug(
        id="lent-commit-commits-sqlite",
        name="SQLite's authorizer lets a lent connection commit",
        harm="An ORM's row stays although the function failed, and the next call writes it again.",
        file="stores/sqlite/shared_connection.py",
        find="if (action in _CONTROL or is_outside)",
        replace="if is_outside",
        test=f"{_LENT}::test_h47_no_call_on_a_lent_connection_commits[sqlite-commit as SQL]",
        breaks="I3",
    ),
    Bug(
        id="lent-commit-commits-postgres",
        name="commit() of a lent psycopg connection commits",
        harm="An ORM's row stays although the function failed, and the next call writes it again.",
        file="stores/postgres/shared_connection.py",
        find="self.lending.commit()",
        replace="super().commit()",
        test=f"{_LENT}::test_h47_no_call_on_a_lent_connection_commits[postgres-commit()]",
        breaks="I3",
    ),
    Bug(
        id="lent-commit-not-noticed",
        name="a COMMIT that was sent as SQL on a lent psycopg connection is not noticed",
        harm="Half of a function's effects are committed without its outcome, unnoticed.",
        file="stores/postgres/transaction.py",
        find="            self._take_back(self._lent)",
        replace="            self._lent.detach()",
        test=f"{_LENT}::test_h47_a_transaction_ended_by_sql_is_an_error_and_never_silent"
        "[postgres-True-commit]",
        breaks="I3",
    ),
    Bug(
        id="lent-connection-given-back",
        name="a connection that was lent goes back to the others when its transaction ends",
        harm="An ORM that keeps it writes into the transaction of another thread.",
        file="stores/sqlite/database.py",
        find="isinstance(raw, LendableConnection) and not raw.in_transaction",
        replace="not raw.in_transaction",
        test=f"{_LENT}::test_h47_a_lent_connection_is_of_no_use_after_the_block[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="lent-until-the-end",
        name="what is kept for the end runs as if the connection were still lent",
        harm="A handler whose ORM only reads fails at every checkpoint.",
        file="stores/sqlite/transaction.py",
        find="self._lending = None  # Commit-time statements run outside of it.",
        replace="pass",
        test="tests/conformance/test_lent_checkpoints.py"
        "::test_h47_a_lent_connection_and_a_checkpoint_are_one_commit[sqlite-read]",
        breaks="W1",
    ),
    Bug(
        id="lent-write-after-rollback",
        name="after SQLite has undone a transaction, a lent connection writes without one",
        harm="Each later write of the ORM is committed by itself, without an outcome.",
        file="stores/sqlite/shared_connection.py",
        find='_ISOLATION_LEVEL.__set__(raw, "")',
        replace="pass",
        test=f"{_LENT}::test_h47_an_error_that_sqlite_undoes_everything_for_lets_nothing_commit_alone"
        "[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="lent-rollback-undoes-tx",
        name="a rollback of a lent connection undoes what `tx` has written since its last commit",
        harm="An ORM that closes a session loses the outcome of a call that has returned.",
        file="stores/shared_savepoints.py",
        find="        self._ours += 1",
        replace="        return",
        test=f"{_LENT}::test_h47_a_rollback_without_a_write_undoes_nothing_of_tx[sqlite-nothing]",
        breaks="I3",
    ),
    Bug(
        id="joined-transaction-committed-sqlite",
        name="we commit the transaction of a framework, on SQLite",
        harm="Django rolls back an order whose outcome stays: it is never placed.",
        file="stores/sqlite/framework_connection.py",
        find="""            self._connection.execute(f"release {SAVEPOINT}")
        self._writing = False""",
        replace="""            self._connection.execute("commit")
        self._writing = False""",
        test=f"{_RECIPES}::test_h47_a_joined_transaction_is_not_committed_by_us[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="joined-transaction-committed-postgres",
        name="we commit the transaction of a framework, on PostgreSQL",
        harm="Django rolls back an order whose outcome stays: it is never placed.",
        file="stores/postgres/framework_connection.py",
        find='self._send(f"release savepoint {SAVEPOINT}")',
        replace='self._send("commit")',
        test=f"{_RECIPES}::test_h47_a_joined_transaction_is_not_committed_by_us[postgres]",
        breaks="I3",
    ),
    Bug(
        id="provider-commit-believed",
        name="an error of a framework's commit is reported as one of the handler",
        harm="A message that was committed is handled again.",
        file="stores/framework_transaction.py",
        find="        if transaction is not None and not is_over:",
        replace="        if transaction is not None:",
        test=f"{_PROVIDERS}::test_h47_an_error_of_the_frameworks_commit_is_unknown[sqlite]",
        breaks="W1",
    ),
)
