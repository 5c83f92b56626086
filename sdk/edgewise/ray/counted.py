"""What several engines have counted, as if one had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.hosting.base import Json
from edgewise_runtime.engine.metrics import FAMILIES, Family


def together(said: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The sum of what `Metrics.snapshot` says at each of several engines.

    The share of KV pages in use is that of the pages of all. Percentiles are left out: no sum of
    them is one. No engine at all has counted nothing.
    """
    numbers = {name: _sum(family, [one[name] for one in said]) for name, family in FAMILIES.items()}
    pages = numbers["kv_pages"]
    numbers["kv_cache_usage_perc"] = numbers["kv_pages_used"] / pages if pages else 0.0
    return numbers


def _sum(family: Family, values: Sequence[Any]) -> Any:
    if family.kind == "histogram":
        return {
            "count": sum(one["count"] for one in values),
            "sum": sum(one["sum"] for one in values),
            "buckets": _by_name([one["buckets"] for one in values]),
        }
    return _by_name(values) if family.label else sum(values)


def _by_name(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total = Counter[str]()
    for one in values:
        # Adding counters would leave out what is 0.
        total.update(one)
    return dict(total)
