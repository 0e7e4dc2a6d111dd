"""Pages: the report as people read it; made from it, and never by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from docs.make.regions import table
from tests.proof.report import BEGIN, END, GUARANTEES, ROOT, Json, promises
from tests.support.evidence import LAYERS

EVIDENCE: Final = ROOT / "docs" / "evidence.md"

NONE: Final = "-"
ABOUT: Final = """\
# Evidence

This page is made from [reliability-report.json](../reliability-report.json), which `make prove`
writes. No number on it was typed. What is promised, and what is not, is in
[GUARANTEES.md](../GUARANTEES.md)."""
WORDS: Final = """\
*Executions* are runs that differ in where or when something went wrong. *Work* is what they were
asked to do: messages, calls, records. *Recovery* is the time from a restart to the next piece of
work that was acknowledged; simulated time is not shown. *Repeated* is work that ran again because
its effects were rolled back, or because it is declared idempotent. *Tests* are those that look for
one thing each, and *bugs* those of the [bank](#bugs-put-back-on-purpose) that its tests caught."""
AGAIN: Final = """\
## Repeat the run

```
make prove
```

It takes 20 to 25 minutes on two cores, needs nothing but Python and make, and writes this page
again. A campaign in which nothing happened fails, and so does one that never reached a state it
tests. Every failure prints one line that begins with `REPRO:` and repeats it. `make soak`
runs for hours. `make test` runs a part of every campaign."""


def write(report: Json) -> None:
    """Write both pages."""
    for path, text in pages(report).items():
        path.write_text(text, encoding="utf-8")


def pages(report: Json) -> dict[Path, str]:
    """Return what each page should say."""
    before, rest = GUARANTEES.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    block = f"{BEGIN}\n{_summary(report)}\n\n{_claims(report)}\n{END}"
    return {GUARANTEES: before + block + after, EVIDENCE: _evidence(report)}


def _summary(report: Json) -> str:
    about, totals = report["about"], report["totals"]
    return (
        f"Commit `{about['commit']}`, {about['date']}: {_number(totals['schedules'])} executions,"
        f" {_number(sum(totals['faults'].values()))} faults, {_number(totals['work'])} pieces of"
        f" work; **{totals['lost']} lost, {totals['doubled']} duplicated**."
        f" On {about['cores']} cores, {about['system']}, Python {about['python']},"
        f" SQLite {about['sqlite']}, PostgreSQL {about['postgres']},"
        f" in {about['seconds'] // 60} min {about['seconds'] % 60} s."
    )


def _claims(report: Json) -> str:
    rows = []
    for promise in promises():
        found = report["claims"].get(promise.id)
        if found is None:
            continue
        rows.append(
            [
                promise.id,
                _number(found["schedules"]) or NONE,
                _number(sum(found["faults"].values())) or NONE,
                *(
                    (str(found["lost"]), str(found["doubled"]))
                    if found["schedules"]
                    else (NONE, NONE)
                ),
                _seconds(found["recovery_max_seconds"]),
                _number(found["tests"]) or NONE,
                _number(len(found["bugs"])) or NONE,
            ]
        )
    heads = [
        "id",
        "executions",
        "faults",
        "lost",
        "duplicated",
        "slowest recovery",
        "tests",
        "bugs caught",
    ]
    return table(heads, rows)


def _evidence(report: Json) -> str:
    parts = [
        ABOUT,
        _summary(report),
        WORDS,
        "## By promise",
        _claims(report),
        *_layers(report),
        *_states(report),
        *_cells(report),
        *_bugs(report),
        AGAIN,
    ]
    return "\n\n".join(parts) + "\n"


def _layers(report: Json) -> Iterable[str]:
    for layer, what in LAYERS.items():
        mine = [each for each in report["campaigns"] if each["layer"] == layer]
        if not mine:
            continue
        name = "PostgreSQL" if layer == "postgres" else layer.capitalize()
        yield f"## {name}: {what}"
        rows = [
            [
                each["campaign"],
                each["engine"],
                " ".join(each["claims"]),
                _number(each["schedules"]),
                _number(each["work"]),
                ", ".join(f"{_number(n)} {kind}" for kind, n in each["faults"].items()),
                f"{each['lost']} / {each['doubled']}",
                _number(each["repeated"]) or "0",
                _recovery(each),
            ]
            for each in mine
        ]
        heads = [
            "campaign",
            "on",
            "promises",
            "executions",
            "work",
            "faults",
            "lost / duplicated",
            "repeated",
            "recovery",
        ]
        yield table(heads, rows)


def _states(report: Json) -> Iterable[str]:
    rows = [
        [each["campaign"], state, _number(count)]
        for each in report["campaigns"]
        if each["layer"] != "matrix"  # Its states are the crash points, which have a table.
        for state, count in each["reached"].items()
    ]
    if rows:
        yield "## States that had to be reached"
        yield "A campaign that never reaches one of these fails, even if all its checks pass."
        yield table(["campaign", "state", "times"], rows)


def _cells(report: Json) -> Iterable[str]:
    points: dict[tuple[str, str], list[Json]] = {}
    for cell in report["cells"]:
        if not cell.get("not_reached"):  # Such a line says why there is no such pass.
            points.setdefault((cell["point"], cell["engine"]), []).append(cell)
    if not points:
        return
    yield "## Crash points"
    yield (
        "Every named point, killed at its first, second and third pass, alone and followed by a"
        " second kill during the recovery. Each cell is a line of the report."
    )
    rows = []
    for (point, engine), cells in sorted(points.items()):
        times = [cell["recover_ms"] for cell in cells if cell.get("recover_ms") is not None]
        rows.append(
            [
                f"`{point}`",
                engine,
                str(sum(1 for cell in cells if not cell["then"])),
                str(sum(1 for cell in cells if cell["then"])),
                f"{max(times):.0f} ms" if times else NONE,
                str(sum(cell["repeated"] for cell in cells)),
            ]
        )
    yield table(["point", "on", "alone", "in pairs", "slowest recovery", "repeated"], rows)


def _bugs(report: Json) -> Iterable[str]:
    if not report["bugs"]:
        return
    yield "## Bugs put back on purpose"
    yield (
        "Each was put into a copy of the source, and the test named with it failed. Without the bug"
        " the same test passes. A canary that changes nothing is reported as not caught."
    )
    rows = [
        [
            str(bug["bug"]),
            str(bug["what"]),
            str(bug["claim"]),
            f"`{str(bug['test']).split('[')[0]}`",
            f"{bug['seconds']:.1f} s",
        ]
        for bug in report["bugs"]
    ]
    yield table(["bug", "what it does", "promise", "caught by", "after"], rows)


def _number(value: int) -> str:
    return f"{value:,}" if value else ""


def _seconds(value: Any) -> str:
    return f"{value:.2f} s" if value is not None else NONE


def _recovery(each: Json) -> str:
    if not each["recoveries"]:
        return NONE
    median, longest = each["recovery_median_seconds"], each["recovery_max_seconds"]
    return f"{median:.2f} s, at most {longest:.2f} s"
