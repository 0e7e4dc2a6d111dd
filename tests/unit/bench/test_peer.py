"""Peers of the benchmarks: environments of their own, and programs that take turns."""

import re
import sys
import venv
from pathlib import Path

import pytest

from bench import canonical, peer
from bench.timing import Run

PEERS = peer.ROOT / "bench" / "peers"


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a peer this Python, which has it, instead of installing anything."""
    python = tmp_path / "rfc8785" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(peer, "PLACE", tmp_path)
    monkeypatch.setattr(peer, "installed", lambda _: "")


@pytest.mark.parametrize("versions", sorted(PEERS.glob("*.txt")), ids=lambda path: path.stem)
def test_versions_of_peers_are_pinned(versions: Path) -> None:
    """Names and versions, nothing else: where they come from is the machine's business."""
    lines = versions.read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), lines
    assert any(line.lower().startswith(f"{versions.stem}==") for line in lines)


@pytest.mark.usefixtures("_installed")
def test_a_peer_does_rounds_when_it_is_asked() -> None:
    """It says its version, answers, and measures itself; then it is ended."""
    with peer.peer("rfc8785", "canonical_json", "rfc8785") as other:
        assert other.label.startswith("rfc8785 0.")
        assert other.ask("encoded", given={"b": 1, "a": 2.0}) == '{"a":2,"b":1}'
        assert 0 < other.round(given={"a": 1}, calls=10)() < 1


@pytest.mark.usefixtures("_installed")
def test_a_peer_that_ends_says_why() -> None:
    """The last line that it wrote is the error."""
    with (
        pytest.raises(peer.PeerFailed, match="KeyError: 'no such work'"),
        peer.peer("rfc8785", "canonical_json", "rfc8785") as other,
    ):
        other.ask("no such work")


def test_a_peer_that_cannot_be_installed_does_not_stop_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our side is measured all the same, and the row says what is missing."""
    monkeypatch.setattr(peer, "installed", lambda name: f"{name} cannot be installed")
    rows = canonical.rows(Run(is_quick=True))
    assert {row.missing[0] for row in rows} == {
        "rfc8785 cannot be installed",
        "jcs cannot be installed",
    }
    assert all(min(row.ours) > 0 for row in rows)


def test_an_installation_that_fails_is_reported_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is noted as made, so that the next run tries again."""
    (tmp_path / "bench" / "peers").mkdir(parents=True)
    (tmp_path / "bench" / "peers" / "absent.txt").write_text("absent==0\n")
    monkeypatch.setattr(peer, "ROOT", tmp_path)
    monkeypatch.setattr(peer, "PLACE", tmp_path / "build")

    def without_pip(place: Path, **_: object) -> None:
        python = place / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho 'no matching distribution' >&2\nexit 1\n")
        python.chmod(0o755)

    monkeypatch.setattr(venv, "create", without_pip)
    problem = peer.installed.__wrapped__("absent")
    assert problem == "absent cannot be installed: no matching distribution"
    assert not (tmp_path / "build" / "absent" / "made.txt").exists()
