"""Bugs that only show beside others: handles, threads and forks of one process on one file."""

from typing import Final

from tests.proof.bugs.bug import Bug

_FILE: Final = "tests/system/test_sqlite_file.py"
_FORKS: Final = "tests/system/test_sqlite_forks.py"
_SHARED: Final = "tests/unit/stores/test_sqlite_database.py"
_DATABASE: Final = "stores/sqlite/database.py"

BUGS: Final = (
    Bug(
        id="fork-inherits-transaction",
        name="a child forked during a transaction uses the file as if it were free",
        harm="It waits ten seconds for a lock that its parent released long ago, each time.",
        file=_DATABASE,
        find="        self._is_refused = self._is_refused or not self._is_clean\n",
        replace="        self._is_refused = False\n",
        test=f"{_FILE}::test_h53_a_fork_during_another_threads_transaction_is_refused_at_once",
        breaks="D1",
        seconds=120.0,
    ),
    Bug(
        id="fork-keeps-connections",
        name="connections stay open while the process forks",
        harm="The child takes its parent's locks for its own, and reads and writes without any.",
        file=_DATABASE,
        find="""        if self._is_clean:
            for connection in list(self._connections):
                connection.close()
""",
        replace="",
        test=f"{_FILE}::test_a_fork_leaves_no_connection_of_the_parents_in_the_child",
        breaks="D1",
    ),
    Bug(
        id="write-lock-per-handle",
        name="each handle on one file has a write lock of its own",
        harm="A thread with two handles waits for itself, for ever.",
        file=_DATABASE,
        find="        database = _shared.get(found.identity)\n",
        replace="        database = None\n",
        test=f"{_FILE}::test_h54_two_handles_in_one_thread_name_the_holder[same path]",
        breaks="D1",
        seconds=20.0,
        is_noticed_by_hanging=True,
    ),
    Bug(
        id="leader-serves-others",
        name="the leader of a group commit goes on with what has queued meanwhile",
        harm="One caller of many waits for seconds, because it commits for all others.",
        file="stores/sqlite/group_commit.py",
        find="                self._hand_over()\n            finally:\n",
        replace="""                if self._queue:
                    self._commit([self._queue.popleft()])
                self._hand_over()
            finally:
""",
        test=f"{_FILE}::test_h55_a_leader_returns_with_its_own_batch",
        breaks="D1",
        seconds=20.0,
        is_noticed_by_hanging=True,
    ),
    Bug(
        id="file-readable-by-others",
        name="a new database is created as the umask says",
        harm="Every user of the machine can read what the store holds.",
        file=_DATABASE,
        find="        files.create(path)\n",
        replace="        path.touch()\n",
        test=f"{_FILE}::test_new_files_are_readable_by_their_owner_only",
        breaks="D1",
    ),
    Bug(
        id="inode-of-a-deleted-file",
        name="a file is known by device and inode alone",
        harm="A new file that got the inode of a deleted one stays empty: the old path is written.",
        file=_DATABASE,
        find="if database is None or _identity(database.path) != found.identity:",
        replace="if database is None:",
        test=f"{_SHARED}::test_a_file_with_the_number_of_a_deleted_one_is_another_file",
        breaks="D1",
    ),
    Bug(
        id="writer-shared-after-close",
        name="a writer gives its connection to others while it waits for its turn",
        harm="A heartbeat that waited writes on it while a reader uses it, and sees half a commit.",
        file="stores/sqlite/group_commit.py",
        find="connection = database.acquire_connection()\n",
        replace="connection = database.acquire_connection()\n"
        "            database.release_connection(connection)\n",
        test=f"{_SHARED}::test_a_closed_handle_passes_its_writer_to_no_other_handle",
        breaks="D1",
    ),
    Bug(
        id="child-ends-its-parents-commit",
        name="a child that was forked inside a commit goes on with it",
        harm="It writes with locks that it does not have: later commits are lost, the file breaks.",
        file="stores/sqlite/connection.py",
        find="""RETURNING would cost a
        third of a statement's time.
        \"\"\"
        if self._fork_number != fork_safety.number:""",
        replace="""RETURNING would cost a
        third of a statement's time.
        \"\"\"
        if False:""",
        test=f"{_FORKS}::test_h53_a_child_forked_inside_a_commit_never_ends_it",
        breaks="D1",
    ),
    Bug(
        id="find-waits-with-its-lock",
        name="the lock for finding rows is held while a connection is opened",
        harm="A finalizer that finds a row meanwhile waits for ever, and all threads with it.",
        file="stores/sqlite/store.py",
        find="        return self._read("
        "name, params, (self._opened or self._open()).lookup_lock)\n",
        replace="        with (self._opened or self._open()).lookup_lock:\n"
        "            return self._read(name, params, None)\n",
        test=f"{_SHARED}::test_finding_a_row_does_not_wait_for_a_connection",
        breaks="D1",
        seconds=60.0,
        is_noticed_by_hanging=True,
    ),
    Bug(
        id="foreign-error-in-a-group-committed",
        name="any error in a group commit counts as undone by SQLite",
        harm="A caller learns that its claim failed, and the claim is committed with the others.",
        file="stores/sqlite/group_commit.py",
        find="if not is_of_sqlite or not transaction.is_open:",
        replace="if not transaction.is_open:",
        test="tests/unit/stores/test_sqlite_writer.py"
        "::test_an_error_that_is_not_of_sqlite_undoes_the_whole_group",
        breaks="I1",
    ),
    Bug(
        id="heartbeat-never-started",
        name="a heartbeat whose thread could not be started is taken for running",
        harm="No claim of the process is renewed any more: long functions run twice.",
        file="outcomes/heartbeat.py",
        find="self._thread = None\n                    self._renewed.discard(claim)\n",
        replace="self._renewed.discard(claim)\n",
        test="tests/unit/outcomes/test_heartbeat.py"
        "::test_a_thread_that_could_not_be_started_is_started_for_the_next_claim",
        breaks="I1",
        seconds=90.0,
    ),
    Bug(
        id="owner-survives-a-fork-in-c",
        name="owners of calls are distinguished by Python's forks alone",
        harm="After a fork made in C two processes take each other's claims for their own.",
        file="outcomes/once.py",
        find="_process(os.getpid(), fork_safety.number)",
        replace="_process(0, fork_safety.number)",
        test="tests/unit/outcomes/test_heartbeat.py"
        "::test_a_process_forked_by_another_language_has_owners_of_its_own",
        breaks="I1",
    ),
    Bug(
        id="undone-group-told-once",  # wording: data
        name="a statement that undoes its whole group is only that caller's failure",
        harm="The others get an error of their own, and do not retry after a full disk.",
        file="stores/sqlite/group_commit.py",
        find="if not is_of_sqlite or not transaction.is_open:",
        replace="if not is_of_sqlite:",
        test="tests/unit/stores/test_sqlite_writer.py"
        "::test_a_statement_that_fails_in_a_group_fails_only_its_caller[rollback-stored1]",
        breaks="D1",
    ),
    Bug(
        id="fork-inherits-the-reading-lock",
        name="a forked child keeps the lock that a thread of its parent held",
        harm="Every call of the child waits for ever.",
        file=_DATABASE,
        find="self._mutex, self.lookup_lock = threading.RLock(), threading.RLock()",
        replace="self._mutex = threading.RLock()",
        test=f"{_FORKS}::test_a_fork_while_another_thread_finds_a_row_leaves_the_child_working",
        breaks="D1",
        seconds=20.0,
        is_noticed_by_hanging=True,
    ),
    Bug(
        id="interrupted-leader-wakes-nobody",  # wording: data
        name="an interrupted caller that is made leader leaves without handing on",
        harm="Every later write of the process waits for ever.",
        file="stores/sqlite/group_commit.py",
        find="        if is_leader:\n            self._hand_over()\n",
        replace="",
        test="tests/unit/stores/test_sqlite_writer.py"
        "::test_a_caller_that_leaves_while_it_is_made_leader_hands_on",
        breaks="D1",
    ),
    Bug(
        id="destroyed-task-takes-the-transaction",
        name="a block that ends in a foreign context sets the transaction of that context",
        harm="Calls inside an open transaction commit apart from it, once a task is collected.",
        file="stores/transaction_context.py",
        find="if self._current.get() is transaction:",
        replace="if True:",
        test="tests/conformance/test_outcomes_destroyed.py"
        "::test_a_destroyed_task_is_undone_and_leaves_others_alone[sqlite-False]",
        breaks="I3",
    ),
)
