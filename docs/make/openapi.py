"""Run `python -m docs.make.openapi PATH`: write the OpenAPI document of everything that is served.

The front end's types are generated from it. No server is started and no store is opened.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from docs.make.reference_http import whole_app


def document() -> dict[str, Any]:
    """Return the document of the console with the Lab and conversations."""
    return whole_app().openapi()


def main(path: Path) -> None:
    """Write the document to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(), indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
