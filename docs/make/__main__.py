"""Run `python -m docs.make`: write the reference from the code, then build the site."""

import importlib
import sys
from typing import Final

#: In this order: the site shows what the reference says.
PARTS: Final = ("reference", "site")


def main(asked: list[str]) -> int:
    """Do the parts asked for, or all of them; a part is a module here with a `main`."""
    if unknown := set(asked) - set(PARTS):
        print(f"error: no such part: {', '.join(sorted(unknown))}", file=sys.stderr)
        print(f"fix: name one of {', '.join(PARTS)}, or none for all", file=sys.stderr)
        return 2
    for part in PARTS:
        if not asked or part in asked:
            importlib.import_module(f"docs.make.{part}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
