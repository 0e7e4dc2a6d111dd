"""Run the benchmarks and print one table: `python -m bench [NAME …]`."""

import sys

from bench import (
    append,
    canonical,
    dispatch,
    help_page,
    lab,
    memory,
    once,
    orchestrator,
    poll,
    scan,
    workers,
)
from bench.table import Row, print_table

BENCHMARKS = {
    "canonical": canonical.rows,
    "append": append.rows,
    "poll": poll.rows,
    "scan": scan.rows,
    "help": help_page.rows,
    "once": once.rows,
    "workers": workers.rows,
    "lab": lab.rows,
    "orchestrator": orchestrator.rows,
    "dispatch": dispatch.rows,
    "memory": memory.rows,
}


def main() -> None:
    wanted = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        print(f"error: no benchmark is named {unknown[0]!r}", file=sys.stderr)
        print(f"fix: choose from {', '.join(BENCHMARKS)}", file=sys.stderr)
        sys.exit(2)
    rows: list[Row] = []
    for name in wanted:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    print_table(rows)


if __name__ == "__main__":
    main()
