"""The state that a bundle's programs keep between steps, as its manifest describes it."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.manifest import StateGroup

KV_KINDS = {"auto": None, "int8": "int8", "f32": "float32"}
"""What can be asked for KV pages: what each program does its arithmetic in (None), int8 codes, or
float32."""

KV_SUFFIXES = {"int8": "-kv8", "float32": "-kv32"}
"""Ends of the ids of programs whose pages hold what was asked for, and not what is their own."""


def state_group(layers: Iterable[int], kv_heads: int, head_dim: int, *, scales: bool) -> StateGroup:
    """What a bundle says about pages; `scales`: with the buffers that only int8 pages have."""
    numbers = tuple(layers)
    return StateGroup(
        kind="paged",
        layers=numbers,
        window=None,
        page_tokens=PAGE_TOKENS,
        kv_heads=kv_heads,
        head_dim=head_dim,
        buffers=tuple(f"kv.{i}" for i in numbers),
        scales=tuple(f"kv_scale.{i}" for i in numbers) if scales else (),
    )
