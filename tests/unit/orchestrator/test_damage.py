"""Files of a run that are lost, torn or damaged: what is made again, and what is refused."""

from __future__ import annotations

import json

import pytest

from onceward.errors import LedgerDamaged, RunMissing
from tests.support.function_agents import STAGES, OrchestratorHarness, SimulatedCrash


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"run_id": 3}'])
def test_the_cached_state_can_be_lost_or_broken(
    content: bytes | None, harness: OrchestratorHarness
) -> None:
    """run.json is rebuilt from the ledger; nothing is decided by it."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (cached,) = (harness.workspace / "state" / "runs").iterdir()
    for path in (harness.workspace / "state" / "run.json", cached):
        path.write_bytes(content) if content is not None else path.unlink()
    (summary,) = harness.orchestrator().runs()
    assert (summary.status, summary.stage) == ("running", "review")
    assert harness.resume().status == "done"
    found = json.loads((harness.workspace / "state" / "run.json").read_text())
    assert (found["status"], found["steps"]) == ("done", 3)
    assert cached.read_text() == (harness.workspace / "state" / "run.json").read_text()


def test_lost_receipts_are_written_again(harness: OrchestratorHarness) -> None:
    """One is gone, one is damaged: both come back as they were, and no agent is asked again."""
    harness.die_at("update_spec")
    with pytest.raises(SimulatedCrash):
        harness.run()
    first, second = sorted((harness.workspace / "receipts" / "T-1").iterdir())
    before = [first.read_bytes(), second.read_bytes()]
    first.unlink()
    second.write_bytes(b"{}")
    assert harness.resume().status == "done"
    assert [first.read_bytes(), second.read_bytes()] == before
    assert harness.stages() == ["implement", "review", "update_spec", "update_spec"]


def test_a_damaged_ledger_is_refused_and_its_place_named(harness: OrchestratorHarness) -> None:
    """One flipped bit in the middle: no resume, and verify says which byte."""
    harness.die_at("update_spec")
    with pytest.raises(SimulatedCrash):
        harness.run()
    lines = harness.ledger().read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:5]))
    lines[5] = lines[5].replace(b'"seq":6', b'"seq":7')
    harness.ledger().write_bytes(b"".join(lines))
    with pytest.raises(LedgerDamaged, match="lacks record 6") as refused:
        harness.resume()
    assert "onceward runs verify" in refused.value.fix
    run_id = harness.ledger().stem
    verified = harness.orchestrator().verify(run_id)
    assert f"events/{run_id}.ndjson, byte {offset}" in [each.path for each in verified.findings]
    (summary,) = harness.orchestrator().runs()
    assert (summary.status, summary.damaged) == ("failed", 1)


@pytest.mark.parametrize("left", [b"\0", b"x"])
def test_an_unsynced_record_may_be_lost(left: bytes, harness: OrchestratorHarness) -> None:
    """A power cut takes it away and leaves what was written after it: the run is resumed."""
    harness.last = 6
    harness.on_the_way = [{"event": "builder.progress", "payload": {"message": "half"}}]
    with pytest.raises(SimulatedCrash):
        harness.run()
    harness.last = None
    lines = harness.ledger().read_bytes().splitlines(keepends=True)
    (lost,) = (at for at, each in enumerate(harness.records()) if each["kind"] == "event")
    assert len(lines) > lost + 1
    lines[lost] = left * (len(lines[lost]) - 1) + b"\n"
    harness.ledger().write_bytes(b"".join(lines))
    assert harness.resume().status == "done"
    assert harness.stages() == STAGES
    (finding,) = harness.orchestrator().verify(harness.ledger().stem).findings
    assert finding.problem == "it has no checksum"


def test_h28_a_torn_end_is_cut_off_and_the_run_goes_on(harness: OrchestratorHarness) -> None:
    """The writer died in the middle of a record, at any byte of it, the newline included."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    whole = harness.ledger().read_bytes()
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    start = len(whole) - len(last) - 1
    for cut in (1, len(last) // 2, len(last)):
        harness.ledger().write_bytes(whole[: start + cut])
        # The last time has left its files.
        assert harness.resume(accept_drift=True).status == "done"
        assert [each["seq"] for each in harness.records()] == list(
            range(1, len(harness.records()) + 1)
        )
        harness.ledger().write_bytes(whole)


def test_a_run_that_died_at_its_first_record_is_no_run(harness: OrchestratorHarness) -> None:
    """Its ledger is empty or torn: it is not listed, nor resumed as the latest one."""
    run_id = harness.run().run_id
    born = "run-99991231-235959-00000000"
    harness.ledger(born).write_bytes(harness.ledger(run_id).read_bytes()[:50])
    assert [each.run_id for each in harness.orchestrator().runs()] == [run_id]
    assert harness.resume().run_id == run_id
    with pytest.raises(RunMissing, match="crashed before its first record"):
        harness.resume(born)
    harness.ledger(run_id).unlink()
    with pytest.raises(RunMissing, match="no run in .*workspace"):
        harness.resume()


def test_a_damaged_end_of_a_ledger_costs_only_what_it_held(harness: OrchestratorHarness) -> None:
    """The last whole line is not what was written: the run goes on before it; verify tells it."""
    harness.die_at("update_spec")
    with pytest.raises(SimulatedCrash):
        harness.run()
    whole = harness.ledger().read_bytes()
    harness.ledger().write_bytes(whole[:-30] + b"?" + whole[-29:])
    result = harness.resume()
    assert result.status == "done"
    assert harness.stages() == ["implement", "review", "update_spec", "update_spec"]
    verified = harness.orchestrator().verify(result.run_id)
    assert [each.problem for each in verified.findings] == ["its checksum does not match"]
