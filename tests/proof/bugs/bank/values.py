"""Bugs of values: keys of typed arguments, results that are stored or not."""

from typing import Final

from tests.proof.bugs.bug import Bug

_KEYS: Final = "tests/unit/keys/test_values.py"
_RESULTS: Final = "tests/conformance/test_values_results.py"
_CALLS: Final = "tests/conformance/test_values_calls.py"

BUGS: Final = (
    Bug(
        id="unstored-result-failed",
        name="a result that cannot be stored counts as a failure of the function",
        harm="The error advises a new key, and the customer who follows it is charged twice.",
        file="outcomes/result_encoding.py",
        find="return None, CallResult(error=error)",
        replace="raise",
        test=f"{_RESULTS}::test_h50_a_result_that_cannot_be_stored_never_runs_again[sqlite-def]",
        breaks="I1",
    ),
    Bug(
        id="unstored-result-undone",
        name="a result that cannot be stored rolls the transaction of its function back",
        harm="The effect is gone, and every caller learns that it was done.",
        file="outcomes/sync_fast_path.py",
        find="""    result, ended = execution.encode(value)
    execution.finish_in_own_transaction""",
        replace="""    result, ended = execution.encode(value)
    if ended.error is not None:
        raise _FunctionFailed(fresh.fence, ended.error)
    execution.finish_in_own_transaction""",
        test=f"{_RESULTS}::test_h50_a_result_that_cannot_be_stored_never_runs_again[sqlite-tx]",
        breaks="I3",
    ),
    Bug(
        id="dollar-keys-not-escaped",
        name="keys of the user's that look like ours are not escaped",
        harm="A call gets the recorded answer to a call with other arguments.",
        file="keys/values.py",
        find='f"{TAG}{key}" if key.startswith(TAG) else key: item',
        replace="key: item",
        test=f"{_KEYS}::test_h51_different_values_have_different_encodings[tag]",
        breaks="I2",
    ),
    Bug(
        id="decimal-not-normalised",
        name="a decimal keeps its trailing zeros in a key",
        harm="A retry that writes 1.50 as 1.5 is taken for new work, and charges again.",
        file="keys/values.py",
        find='kept = written.rstrip("0")',
        replace='kept = written if written.strip("0") else ""',
        test=f"{_KEYS}::test_h51_equal_values_have_one_encoding[decimal]",
        breaks="I1",
    ),
    Bug(
        id="excluded-fields-left-out",
        name="a field that a model does not serialise is no part of the key",
        harm="Two different calls have one key: the second is never done.",
        file="keys/values.py",
        find="for name in type(model).model_fields if name in held}",
        replace="for name, each in type(model).model_fields.items() if not each.exclude}",
        test=f"{_KEYS}::test_h51_different_values_have_different_encodings[excluded]",
        breaks="I2",
    ),
    Bug(
        id="error-that-cannot-be-read",
        name="an error whose text cannot be read is not recorded",
        harm="The key stays claimed until its lease is over, and then its outcome is unknown.",
        file="outcomes/error_encoding.py",
        find='        return str.encode(head, "utf-8", "replace").decode()\n    except Exception:',
        replace='        return str.encode(head, "utf-8").decode()\n    except KeyError:',
        test=f"{_CALLS}::test_an_error_that_raises_or_lies_is_a_recorded_failure[sqlite-False]",
        breaks="I1",
    ),
    Bug(
        id="replayed-failure-frees-the-key",
        name="a recorded failure of an inner call frees the key of the outer one",
        harm="Work that failed for good is tried again for ever.",
        file="outcomes/call_execution.py",
        find="frees = is_open and not is_replayed_error(error)",
        replace="frees = is_open",
        test=f"{_RESULTS}::test_h50_an_inner_failure_that_was_replayed_frees_no_key[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="result-without-its-type",
        name="the first caller gets what the function returned, and not what was stored",
        harm="The first answer and a replay differ, and code that worked fails on a retry.",
        file="outcomes/result_encoding.py",
        find="return text, CallResult(value=results.read(text))",
        replace="return text, CallResult(value=value)",
        test="tests/conformance/test_outcomes_once.py::test_first_call_and_replay_return_equal_values[sqlite]",
        breaks="I1",
    ),
)
