"""The random tensors of a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def add_experts(add: Callable[..., None], mlp: str, c: Mapping[str, Any]) -> None:
    """A mixture of experts; results of several are smaller than each of them."""
    hidden, width = c["hidden_size"], c.get("moe_intermediate_size", c["intermediate_size"])
    add(f"{mlp}.gate.weight", (c["num_experts"], hidden), 1.5 / hidden**0.5)
    modules = {f"experts.{e}": width for e in range(c["num_experts"])}
    if "shared_expert_intermediate_size" in c:
        modules["shared_expert"] = c["shared_expert_intermediate_size"]
        add(f"{mlp}.shared_expert_gate.weight", (1, hidden), 1.0 / hidden**0.5)
    for module, rows in modules.items():
        for part in ("gate", "up"):
            add(f"{mlp}.{module}.{part}_proj.weight", (rows, hidden), 1.0 / hidden**0.5)
        add(f"{mlp}.{module}.down_proj.weight", (hidden, rows), 2.0 / rows**0.5)


def add_stacked(add: Callable[..., None], mlp: str, c: Mapping[str, Any]) -> None:
    """The same as gpt-oss has it: experts in one tensor, with rows as columns, of which gate's and
    up's alternate. Gates reach the limit of 7 now and then."""
    hidden, width, count = c["hidden_size"], c["intermediate_size"], c["num_local_experts"]
    add(f"{mlp}.router.weight", (count, hidden), 1.5 / hidden**0.5)
    add(f"{mlp}.router.bias", (count,), 0.5)
    add(f"{mlp}.experts.gate_up_proj", (count, hidden, 2 * width), 2.5 / hidden**0.5)
    add(f"{mlp}.experts.gate_up_proj_bias", (count, 2 * width), 0.5)
    add(f"{mlp}.experts.down_proj", (count, width, hidden), 0.5 / width**0.5)
    add(f"{mlp}.experts.down_proj_bias", (count, hidden), 0.2)
