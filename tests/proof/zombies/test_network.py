"""Network: requests that are delayed, cut, reset and doubled, and the client that insists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.proof.proxy import Proxy
from tests.proof.zombies.surfaces import Surface, shop, up
from tests.proof.zombies.wires import FAULTS, LOSING, QUICK_FAULTS, Fault, insist, send_under, weigh
from tests.support.evidence import Entry, Evidence


class Tally:
    """What was seen of one surface."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.lost = self.doubled = self.work = 0
        self.reached: Counter[str] = Counter()


def torment(surface: Surface, faults: Iterable[Fault]) -> Tally:
    """Send one request under each fault, until it is answered: it has happened once."""
    tally = Tally()
    with Proxy("127.0.0.1", surface.port) as proxy:
        size = weigh(proxy.port, surface.request("key-xx").to_bytes())
        for number, fault in enumerate(faults):
            key = f"key-{number:02}"
            data = surface.request(key).to_bytes()
            heard = send_under(fault, proxy, data, size)
            tally.faults[fault.name] += 1
            assert heard is None or not fault.breaks, (fault.name, heard)
            if heard is not None and heard.is_to_be_repeated:
                heard = None
            if fault.is_lost_on_the_way:
                assert surface.effects(key) == 0, fault.name
                tally.reached["nothing arrived"] += 1
            elif heard is None:
                tally.reached["the answer was lost"] += 1
            answer, again = insist(proxy.port, data), insist(proxy.port, data)
            said = {surface.essence(each) for each in (heard, answer, again) if each is not None}
            assert len(said) == 1, (fault.name, heard, answer, again)
            assert answer.status in (200, 201), (fault.name, answer)
            count = surface.effects(key)
            tally.work += count > 0
            tally.lost += count == 0
            tally.doubled += max(0, count - 1)
            assert count == 1, (surface.name, fault.name, count)
    return tally


def record(surface: Surface, engine: str, tally: Tally, evidence: Evidence) -> None:
    evidence.record(
        Entry(
            campaign=f"{surface.name}, over a wire that delays, cuts, falls silent and repeats",
            layer="network",
            claims=surface.claims,
            engine=engine,
            schedules=tally.faults.total(),
            faults=dict(tally.faults),
            work=tally.work,
            lost=tally.lost,
            doubled=tally.doubled,
            reached=dict(tally.reached),
        )
    )


def engine_of(url: str) -> str:
    return url.partition(":")[0].removesuffix("ql")


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", ["/tx", "/plain"])
def test_a_request_is_carried_out_once_whatever_the_wire_does(
    ow_url: str, path: str, prove: bool, evidence: Evidence
) -> None:
    """A client that repeats it with its key gets one effect and one answer."""
    with shop(ow_url, path) as surface:
        tally = torment(surface, FAULTS if prove else QUICK_FAULTS)
    record(surface, engine_of(ow_url), tally, evidence)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_people_and_agents_act_once_whatever_the_wire_does(
    ow_url: str,
    prove: bool,
    evidence: Evidence,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message, a button and a judgement: each is there once, and every answer says the same."""
    monkeypatch.setenv("CM_LAB_ROOT", str(tmp_path / "lab"))
    monkeypatch.setenv("CM_FEEDBACK_STORE_PATH", str(tmp_path / "feedback.jsonl"))
    if not prove and engine_of(ow_url) == "postgres":
        pytest.skip("a long proof, of which one engine is enough every time")
    with up(ow_url, tmp_path) as surfaces:
        for surface in surfaces:
            tally = torment(surface, FAULTS if prove else LOSING)
            engine = "files" if "L1" in surface.claims else engine_of(ow_url)
            record(surface, engine, tally, evidence)
