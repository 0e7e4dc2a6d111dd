"""Write the results of a whole run into the documentation."""

from collections.abc import Mapping

from bench.cells import HEADS, Parts, cells, goals, misses, phrase, tally
from bench.costs import Costs
from bench.peer import ROOT
from docs.make import regions

BENCHMARKS = ROOT / "docs" / "benchmarks.md"
SCALING = ROOT / "docs" / "explanation" / "scaling.md"
README = ROOT / "README.md"
ABOUT = """\
# Benchmarks

`make bench` does the same work with Onceward and with its peers, in one run on one machine, and
writes this page. No number on it was typed. Ratios travel to other machines; absolute numbers are
those of this one."""
WORDS = """\
Both sides alternate, round by round, so that a busy moment of the machine hits both. Each round is
compared with the round beside it; the table has the median of these ratios, and the smallest and
the largest in brackets. A *peer* is another project, in its usual setting and an environment of its
own, with every commit synced; or another way of ours to do the work, where it says so. The *bare
limit* is a loop that does only what cannot be left out, such as the commits, with nothing around
it: our *share* says what is left of that. *Growth* is how much longer the same piece of work takes
than with less around it: 1 is not at all. A *goal* was set before it was first measured."""
AGAIN = """\
## Run the benchmarks

```sh
make bench                        # everything; writes this page
make bench ARGS="once workers"    # parts of it; only prints
make bench ARGS=--json            # for machines
```

A whole run takes about a quarter of an hour on two cores, and nothing else should run beside it.
Peers are installed into `build/peers/`, in the versions that `bench/peers/` names; one that cannot
be installed is reported, and the exit code is 1. What each operation costs, and how that scales, is
in [scaling](explanation/scaling.md)."""


def write(facts: Mapping[str, str], parts: Parts, costs: Costs) -> list[str]:
    """Write all pages; return which."""
    BENCHMARKS.write_text(benchmarks(facts, parts))
    written = [BENCHMARKS]
    for path, name, content in (
        (SCALING, "costs", costs.markdown(machine(facts))),
        (README, "bench", summary(facts, parts)),
    ):
        page = path.read_text()
        if regions.BEGIN.format(name) in page:
            path.write_text(put(page, name, content))
            written.append(path)
    return [str(path.relative_to(ROOT)) for path in written]


def benchmarks(facts: Mapping[str, str], parts: Parts) -> str:
    """Return the page of all rows."""
    missed = misses(parts)
    about = [f"- {name}: {fact}" for name, fact in facts.items()]
    rows = []
    for part, found in parts.items():
        rows.append([f"**{part}**", *[""] * (len(HEADS) - 1)])
        rows += [cells(row) for row in found]
    blocks = [
        ABOUT,
        "\n".join(about),
        WORDS,
        f"## Results: {tally(parts)}",
        regions.table(HEADS, rows),
        "## Missed goals",
        "\n".join(f"- {each}" for each in missed) or "Nowhere in this run.",
        AGAIN,
    ]
    return "\n\n".join(blocks) + "\n"


def summary(facts: Mapping[str, str], parts: Parts) -> str:
    """Return the few rows that matter most, lost or not."""
    rows = [
        [
            row.work,
            row.shown(sorted(row.ours)[len(row.ours) // 2]),
            "; ".join(phrase(row, each) for each in row.besides if each.kind != "bound"),
            goals(row),
        ]
        for found in parts.values()
        for row in found
        if row.is_headline
    ]
    table = regions.table(["work", "Onceward", "beside", "goal"], rows)
    return f"{table}\n\nOn {machine(facts)}. Of {tally(parts)}: [all results](docs/benchmarks.md)."


def machine(facts: Mapping[str, str]) -> str:
    """Return the machine in a few words."""
    names = ("kernel", "Python", "SQLite", "PostgreSQL")
    versions = ", ".join(
        facts[name] if name == "kernel" else f"{name} {facts[name]}" for name in names
    )
    cores, memory = facts["cores"].split(",")[0], facts["memory"]
    return f"a machine with {cores} cores and {memory}, {versions}; {facts['disk']}"


def put(page: str, name: str, content: str) -> str:
    """Return a page with one region replaced."""
    before, rest = page.split(regions.BEGIN.format(name) + "\n", 1)
    _, after = rest.split(regions.END + "\n", 1)
    return before + regions.region(name, content) + after
