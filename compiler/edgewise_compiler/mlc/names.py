"""Names of files in folders of MLC LLM. Loads nothing else."""

from __future__ import annotations

from pathlib import Path

CONFIG = "mlc-chat-config.json"

CACHES = ("tensor-cache.json", "ndarray-cache.json")
"""What lists the tensors; the second is what it was called before."""

EXPORTED = ("q4f16_1", "q4f32_1", "q0f16", "q0f32")
"""Quantizations that are written: four bits or floats, beside float16 or the upper halves of
float32."""

SHARDS = "params_shard_*.bin"
"""What files of tensors are called by who writes them; the list may name any."""


def is_mlc(path: Path) -> bool:
    """Whether ``path`` is a folder of a model as MLC LLM stores it, and nothing else."""
    return (path / CONFIG).is_file() and not (path / "config.json").is_file()
