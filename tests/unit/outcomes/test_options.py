"""Options of @once: every one of them is documented."""

import inspect
import re
from pathlib import Path

from onceward.outcomes import once

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-once.md"


def test_every_option_of_once_is_in_the_table() -> None:
    """The table of the how-to page names the options of the decorator, all of them and no other."""
    options = [name for name in inspect.signature(once).parameters if name != "outcomes"]
    table = PAGE.read_text().partition("## Options of `@once`")[2]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(options)
