"""Files of a run that are lost, torn or damaged: what is made again, and what is refused."""

from __future__ import annotations

import json

import pytest

from onceward.errors import LedgerDamaged, RunMissing
from tests.unit.orchestrator.theatre import STAGES, Died, Theatre


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"run_id": 3}'])
def test_the_cached_state_can_be_lost_or_broken(content: bytes | None, theatre: Theatre) -> None:
    """run.json is rebuilt from the ledger; nothing is decided by it."""
    theatre.die_at("review")
    with pytest.raises(Died):
        theatre.run()
    (cached,) = (theatre.workspace / "state" / "runs").iterdir()
    for path in (theatre.workspace / "state" / "run.json", cached):
        path.write_bytes(content) if content is not None else path.unlink()
    (summary,) = theatre.orchestrator().runs()
    assert (summary.status, summary.stage) == ("running", "review")
    assert theatre.resume().status == "done"
    found = json.loads((theatre.workspace / "state" / "run.json").read_text())
    assert (found["status"], found["steps"]) == ("done", 3)
    assert cached.read_text() == (theatre.workspace / "state" / "run.json").read_text()


def test_lost_receipts_are_written_again(theatre: Theatre) -> None:
    """One is gone, one is damaged: both come back as they were, and nobody is asked again."""
    theatre.die_at("update_spec")
    with pytest.raises(Died):
        theatre.run()
    first, second = sorted((theatre.workspace / "receipts" / "T-1").iterdir())
    before = [first.read_bytes(), second.read_bytes()]
    first.unlink()
    second.write_bytes(b"{}")
    assert theatre.resume().status == "done"
    assert [first.read_bytes(), second.read_bytes()] == before
    assert theatre.stages() == ["implement", "review", "update_spec", "update_spec"]


def test_a_damaged_ledger_is_refused_and_its_place_named(theatre: Theatre) -> None:
    """One flipped bit in the middle: no resume, and verify says which byte."""
    theatre.die_at("update_spec")
    with pytest.raises(Died):
        theatre.run()
    lines = theatre.ledger().read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:5]))
    lines[5] = lines[5].replace(b'"seq":6', b'"seq":7')
    theatre.ledger().write_bytes(b"".join(lines))
    with pytest.raises(LedgerDamaged, match="lacks record 6") as told:
        theatre.resume()
    assert "onceward runs verify" in told.value.fix
    run_id = theatre.ledger().stem
    verified = theatre.orchestrator().verify(run_id)
    assert f"events/{run_id}.ndjson, byte {offset}" in [each.path for each in verified.findings]
    (summary,) = theatre.orchestrator().runs()
    assert (summary.status, summary.damaged) == ("failed", 1)


@pytest.mark.parametrize("left", [b"\0", b"x"])
def test_a_record_that_nobody_waited_for_may_be_lost(left: bytes, theatre: Theatre) -> None:
    """A power cut takes it away and leaves what was written behind it: the run is resumed."""
    theatre.last = 5
    with pytest.raises(Died):
        theatre.run()
    theatre.last = None
    lines = theatre.ledger().read_bytes().splitlines(keepends=True)
    (lost,) = (at for at, each in enumerate(lines) if b'"kind":"command.sent"' in each)
    assert len(lines) > lost + 1
    lines[lost] = left * (len(lines[lost]) - 1) + b"\n"
    theatre.ledger().write_bytes(b"".join(lines))
    assert theatre.resume().status == "done"
    assert theatre.stages() == STAGES
    (finding,) = theatre.orchestrator().verify(theatre.ledger().stem).findings
    assert finding.problem == "it has no checksum"


def test_h28_a_torn_end_is_cut_off_and_the_run_goes_on(theatre: Theatre) -> None:
    """The writer died in the middle of a record, at any byte of it, the newline included."""
    theatre.die_at("review")
    with pytest.raises(Died):
        theatre.run()
    whole = theatre.ledger().read_bytes()
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    start = len(whole) - len(last) - 1
    for cut in (1, len(last) // 2, len(last)):
        theatre.ledger().write_bytes(whole[: start + cut])
        assert theatre.resume().status == "done"
        assert [each["seq"] for each in theatre.records()] == list(
            range(1, len(theatre.records()) + 1)
        )
        theatre.ledger().write_bytes(whole)


def test_a_run_that_died_at_its_first_record_is_no_run(theatre: Theatre) -> None:
    """Its ledger is empty or torn: it is not listed, and nobody resumes it for the latest one."""
    run_id = theatre.run().run_id
    born = "run-99991231-235959-00000000"
    theatre.ledger(born).write_bytes(theatre.ledger(run_id).read_bytes()[:50])
    assert [each.run_id for each in theatre.orchestrator().runs()] == [run_id]
    assert theatre.resume().run_id == run_id
    with pytest.raises(RunMissing, match="died before it began"):
        theatre.resume(born)
    theatre.ledger(run_id).unlink()
    with pytest.raises(RunMissing, match="no run in this workspace"):
        theatre.resume()


def test_a_damaged_end_of_a_ledger_costs_only_what_it_held(theatre: Theatre) -> None:
    """The last whole line is not what was written: the run goes on before it; verify tells it."""
    theatre.die_at("update_spec")
    with pytest.raises(Died):
        theatre.run()
    whole = theatre.ledger().read_bytes()
    theatre.ledger().write_bytes(whole[:-30] + b"?" + whole[-29:])
    result = theatre.resume()
    assert result.status == "done"
    assert theatre.stages() == ["implement", "review", "update_spec", "update_spec"]
    verified = theatre.orchestrator().verify(result.run_id)
    assert [each.problem for each in verified.findings] == ["its checksum does not fit"]
