"""Random SQL with a commit in it: whatever hides it, nothing is committed before the block ends."""

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward.client import Onceward
from onceward.errors import SqlFailed
from onceward.stores.user_statements import check_statement
from tests.support.proof_length import examples_for, run_examples

#: Pieces that a tokenizer can get wrong, alone or side by side.
PIECES = [
    *[
        "'",
        "''",
        "\\",
        "\\'",
        '"',
        "E'",
        "e'",
        "x'",
        "U&'",
        "date'",
        "$$",
        "$a$",
        "$é$",
        "$1",
        "a$",
    ],
    *["/*", "*/", "--", "\n", "\r", "\r\n", "\t", "\ufeff", "\u00a0", "\f", " ", "; ", ";", ","],
    *[
        "1",
        "a",
        "é",
        "::text",
        " as a",
        "||",
        "?",
        "[",
        "]",
        "`",
        "(",
        ")",
        "%",
        ":",
        "@",
        "-",
        "/",
    ],
]
#: Frames in which some of them make a valid statement, with a commit after it.
FRAMES = [
    "{0}commit{1}",
    "{0};commit;{1}",
    "select 1{0};commit;--{1}",
    "select '{0}';commit;--{1}'",
    "select '{0}' as \"{1}\";commit",
    "select $${0}$$;commit;{1}--'",
    "/*{0}*/commit--{1}",
    "--{0}\ncommit/*{1}*/",
    "select {0}'{1}';commit;--'",
    "select {0} '{1}' '; commit; --'",
]
texts = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
statements = st.builds(str.format, st.sampled_from(FRAMES), texts, texts)


@pytest.mark.prove
def test_h56_no_text_hides_a_commit(ow: Onceward, prove: bool, soak: bool) -> None:
    """The row before the statement is there only when the block ended well, and it never does."""
    seen: Counter[str] = Counter()
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint)")

    @settings(
        max_examples=examples_for(ow, prove=prove, soak=soak, short=150),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(statements)
    def holds(sql: str) -> None:
        with suppress(SqlFailed, ZeroDivisionError), ow.transaction() as tx:
            tx.execute("insert into effects values (1)")
            tx.execute(sql)
            raise ZeroDivisionError
        with ow.transaction() as tx:
            assert tx.execute("select * from effects") == []
        try:
            check_statement(sql, ow.store.engine)
            seen["passed on"] += 1
        except SqlFailed:
            seen["refused"] += 1

    run_examples(holds, counts=seen, must_reach=("passed on", "refused"))
