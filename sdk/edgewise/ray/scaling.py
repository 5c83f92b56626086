"""How many replicas there are to be: by what their engines count, not by what Ray sees of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgewise.hosting.base import Json

LOAD = "edgewise_load"
"""What a replica tells Ray: how full it is, 1 for as full as it should be."""


def load_of(
    metrics: Mapping[str, Json], slots: int, *, full: float = 1.0, kv_full: float = 1.0
) -> float:
    """How full a replica is: by its requests or by its KV pages, whichever says more.

    Args:
        metrics: see `engine.metrics.FAMILIES`.
        slots: sequences that it runs at once.
        full, kv_full: as full as it should be, see `ServeOptions`.
    """
    requests = metrics["num_requests_running"] + metrics["num_requests_waiting"]
    by_requests = float(requests) / (slots * full)
    return max(by_requests, float(metrics["kv_cache_usage_perc"]) / kv_full)


def wanted(loads: Iterable[float], replicas: int) -> float:
    """Replicas among which what these have would be as much as each is made for.

    Those of which nothing is known count as the others on average; without any, all stay.
    """
    known = list(loads)
    return sum(known) / len(known) * replicas if known else float(replicas)


def policy(context: Any) -> tuple[float, dict[str, Any]]:
    """Ray Serve's autoscaling policy, which keeps to bounds and delays by itself.

    Args:
        context: Ray's `AutoscalingContext`.
    """
    said = (context.aggregated_metrics or {}).get(LOAD) or {}
    return wanted(said.values(), context.current_num_replicas), {}
