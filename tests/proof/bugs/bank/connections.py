"""Bugs of connections: each shows only behind a pooler, or in a process with many open files."""

from typing import Final

from tests.proof.bugs.bug import Bug

_POOLER: Final = "tests/unit/stores/test_pooler.py"

BUGS: Final = (
    Bug(
        id="statement-names-fixed",
        name="every connection prepares its statements under the same names",
        harm="Behind a pooler that was not detected a write runs another process's statement.",
        file="stores/postgres/pooler.py",
        find="return found, self._prefix + name if found is Prepare.SHOULD else name",
        replace="return found, name",
        test=f"{_POOLER}::test_h48_statement_names_of_two_connections_have_nothing_in_common",
        breaks="D1",
    ),
    Bug(
        id="pooler-not-detected",
        name="new connections are not checked for a pooler",
        harm="Behind PgBouncer the first calls of every process fail.",
        file="stores/postgres/pooler.py",
        find="if state.setting is None and not state.is_pooled and is_pooled(self):",
        replace="if state.setting is None and state.is_pooled and is_pooled(self):",
        test=f"{_POOLER}::test_a_pooler_is_detected_and_nothing_is_prepared",
        breaks="D1",
    ),
    Bug(
        id="missing-statement-ignored",
        name="a prepared statement that is missing does not turn pooler mode on",
        harm="Behind a pooler that was not detected calls fail for ever.",
        file="stores/postgres/pooler.py",
        find="""            if is_statement_missing(exc):
                self._state.mark_pooled()
            raise""",
        replace="            raise",
        test=f"{_POOLER}::test_h48_a_statement_that_is_missing_turns_pooler_mode_on",
        breaks="D1",
    ),
    Bug(
        id="select-not-poll",
        name="idle connections are checked by select, which takes no number above 1,023",
        harm="A server with a thousand clients cannot use its store.",
        file="stores/postgres/store.py",
        find="""        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
""",
        replace="        if select.select([connection.fileno()], [], [], 0)[0]:\n",
        test="tests/system/test_descriptors.py"
        "::test_h58_more_than_1024_open_files_change_nothing[postgres]",
        breaks="D1",
    ),
)
