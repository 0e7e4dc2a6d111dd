"""An agent that learns from what people say in the Lab, and may be killed at any moment.

python examples/lab_agent.py agent.cursor
python examples/lab_agent.py agent.cursor http://127.0.0.1:3939

Its place is kept in the cursor file: run it again and nothing comes twice. Without an address it
reads the feedback file itself. A program that never ends says `for entry in client:` instead.
"""

import sys

from onceward.errors import InvalidCursor
from onceward.lab import FeedbackClient


def main(cursor: str, source: str | None = None) -> None:
    """Work through what is new, then end."""
    with FeedbackClient(source, cursor=cursor) as client:
        try:
            for entry in client.available():
                # A crash in here brings this entry again, so what is kept is keyed by its id.
                rated = entry.get("ratings", {}).get("overall", "not rated")
                print(f"{entry['id']}: {rated}: {entry.get('notes', '')}")
        except InvalidCursor as exc:
            client.reset()
            print(f"the next run starts again: {exc.message}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
