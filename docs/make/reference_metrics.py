"""Make the reference of metrics: names, types, labels and help texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import Metric

from docs.make.regions import Maker, code, table
from onceward.workers.handler_timings import HandlerTimings
from onceward.workers.metrics import MetricsPage, StoreReadings
from onceward.workers.telemetry import Telemetry


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of metrics."""
    of_store = families(is_process=False)
    known = {each.name for each in of_store}
    of_process = [each for each in families(is_process=True) if each.name not in known]
    of_cursors = [each for each in of_store if "cursor_name" in _labels(each)]
    others = [each for each in of_store if each not in of_cursors]
    return {
        "metrics of cursors": lambda _: _listed(of_cursors),
        "metrics of the store": lambda _: _listed(others),
        "metrics of a process": lambda _: _listed(of_process),
    }


def families(*, is_process: bool) -> list[Metric]:
    """Return all that a page can show, of a store that has nothing in it."""
    counted: dict[str, Any] = (
        {"telemetry": Telemetry(), "timings": HandlerTimings()} if is_process else {}
    )
    page: Any = MetricsPage(None, **counted)
    page._store_queries = SimpleNamespace(query=lambda: StoreReadings(cursors=(), firing={}))  # noqa: SLF001 - the answer of an empty store
    return list(page._families())  # noqa: SLF001 - the text of a page has no labels where it has no numbers


def name_of(family: Metric) -> str:
    """Return the name as it is asked for; counters have an ending."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> tuple[str, ...]:
    return tuple(family._labelnames)  # type: ignore[attr-defined]  # noqa: SLF001 - the library has no public name for it


def _listed(found: Iterable[Metric]) -> str:
    rows = [
        [
            code(name_of(each)),
            each.type,
            code(*_labels(each)) if _labels(each) else "",
            each.documentation,
        ]
        for each in found
    ]
    return table(["metric", "type", "labels", "meaning"], rows)
