"""A payment service, as a file. It charges whenever it is asked; it does not know us."""

from pathlib import Path


class Bank:
    """What was charged, in the order in which it was."""

    def __init__(self, file: Path) -> None:
        """Keep it in this file."""
        self._file = file

    def charge(self, order: int, cents: int) -> None:
        """Charge, again if asked again."""
        with self._file.open("a") as file:
            file.write(f"{order} {cents}\n")

    def charged(self) -> list[int]:
        """Return the orders that were charged."""
        if not self._file.exists():
            return []
        return [int(line.split()[0]) for line in self._file.read_text().splitlines()]
