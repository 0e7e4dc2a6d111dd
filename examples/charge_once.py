"""A charge that happens once, for all callers and retries, whatever process dies in between.

python examples/charge_once.py shop.db
"""

import sys
from pathlib import Path

from onceward import open as open_store
from onceward.errors import KeyReused
from onceward.outcomes import Done, NotDone

store = open_store(f"sqlite:///{sys.argv[1]}")
bank = Path(sys.argv[1]).with_suffix(".bank")


def look_at_the_bank(order_id: int, cents: int) -> Done | NotDone:
    """Say what became of a charge that was begun and then fell silent."""
    is_charged = bank.exists() and f"{order_id}:{cents}" in bank.read_text().split()
    return Done({"order": order_id, "charged": cents}) if is_charged else NotDone()


@store.once(key=lambda order_id, _cents: f"charge#{order_id}", reconcile=look_at_the_bank)
def charge(order_id: int, cents: int) -> dict[str, int]:
    """Charge at a bank that no database of ours can see."""
    print(f"the bank charges {cents} for order {order_id}")
    with bank.open("a") as file:
        file.write(f"{order_id}:{cents} ")
    return {"order": order_id, "charged": cents}


def main() -> None:
    """Ask three times; the bank hears of it once, also when this program is run again."""
    for _ in range(3):
        print(charge(7, 1999))
    try:
        charge(7, 99)
    except KeyReused as exc:
        print(f"refused: {exc.message}")


if __name__ == "__main__":
    main()
