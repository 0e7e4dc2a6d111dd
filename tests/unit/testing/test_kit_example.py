"""The example of the kit: what the guide shows is what is there, and holds on both engines."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from onceward.testing import CrashSummary, Trial
from onceward.testing.crash_everywhere import ONLY_VARIABLE
from tests.support.evidence import Entry, Evidence

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "prove_your_handler"
GUIDE = ROOT / "docs" / "how-to" / "prove-your-handlers.md"
SHOWN = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The bank has charged, and the outcome is not recorded.
WORST = "outcome.run.after_effect:1"


def test_the_guide_shows_the_example() -> None:
    """Each file, letter by letter."""
    files = {path.name: path.read_text() for path in EXAMPLE.glob("*.py")}
    assert dict(SHOWN.findall(GUIDE.read_text())) == files


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import modules of the example, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(EXAMPLE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.prove
def test_the_fixed_shop_charges_once_wherever_it_dies(  # noqa: PLR0913, PLR0917 - fixtures
    example: Callable[[str], ModuleType],
    crash_everywhere: Callable[..., CrashSummary],
    ow_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prove: bool,
    evidence: Evidence,
) -> None:
    """One charge at the bank and one row, after a kill at every place of a worker."""
    shown, fixed, bank = (example(name) for name in ("test_shop", "fixed_shop", "bank"))
    monkeypatch.setattr(shown, "shop", fixed.shop)
    if not prove:
        monkeypatch.setenv(ONLY_VARIABLE, WORST)
    counts = tmp_path / "counts"

    def check(trial: Trial) -> None:
        charged = bank.Bank(trial.path / "bank.txt").charged()
        rows = trial.rows("select order_id from charges")
        with counts.open("a") as file:
            file.write(f"{len(charged)} {len(rows)}\n")
        shown.charged_once(trial)

    found = crash_everywhere(shown.work, check, setup=shown.one_order)
    counted = [int(number) for number in counts.read_text().split()]
    assert len(counted) == 2 * (found.kills + 1)
    evidence.record(_entry(found, counted, ow_url.partition(":")[0]))


def _entry(found: CrashSummary, counted: list[int], scheme: str) -> Entry:
    return Entry(
        campaign="kill -9 at every place of a handler that charges at a bank",
        layer="matrix",
        claims=("W1", "I4"),
        engine="sqlite" if scheme == "sqlite" else "postgres",
        schedules=found.kills,
        faults={"kill": found.kills},
        work=len(counted),
        lost=sum(max(0, 1 - number) for number in counted),
        doubled=sum(max(0, number - 1) for number in counted),
        reached={"charged, and not recorded": int(WORST.rpartition(":")[0] in found.points)},
    )
