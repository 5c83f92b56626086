"""The random tensors of a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def add_experts(add: Callable[..., None], mlp: str, c: Mapping[str, Any]) -> None:
    """A mixture of experts; results of several are smaller than each of them."""
    hidden, width = c["hidden_size"], c["moe_intermediate_size"]
    add(f"{mlp}.gate.weight", (c["num_experts"], hidden), 1.5 / hidden**0.5)
    modules = {f"experts.{e}": width for e in range(c["num_experts"])}
    if "shared_expert_intermediate_size" in c:
        modules["shared_expert"] = c["shared_expert_intermediate_size"]
        add(f"{mlp}.shared_expert_gate.weight", (1, hidden), 1.0 / hidden**0.5)
    for module, rows in modules.items():
        for part in ("gate", "up"):
            add(f"{mlp}.{module}.{part}_proj.weight", (rows, hidden), 1.0 / hidden**0.5)
        add(f"{mlp}.{module}.down_proj.weight", (hidden, rows), 2.0 / rows**0.5)
