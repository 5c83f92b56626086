"""Names by which config.json says that weights are quantized. Loads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS = ("quantization_config", "compression_config")
"""Keys of config.json that say how weights are quantized."""

NAMES = ("awq", "gptq", "compressed-tensors", "mxfp4")
"""Values of ``quant_method`` that are read (`packed.table.METHODS`)."""


def packing_of(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The format of a parsed config.json's weights, and what it says of it; None for floats, and
    for what is not known."""
    for key in KEYS:
        found = config.get(key)
        if isinstance(found, dict) and found.get("quant_method") in NAMES:
            return found["quant_method"], found
    return None
