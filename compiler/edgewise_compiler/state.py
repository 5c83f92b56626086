"""The state that a bundle's programs keep between steps, as its manifest describes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgewise_runtime.format.abi import PAGE_TOKENS, TABLES
from edgewise_runtime.format.manifest import StateGroup

KV_KINDS = {"auto": None, "int8": "int8", "f32": "float32"}
"""What can be asked for KV pages: what each program does its arithmetic in (None), int8 codes, or
float32."""

KV_SUFFIXES = {"int8": "-kv8", "float32": "-kv32"}
"""Ends of the ids of programs whose pages hold what was asked for, and not what is their own."""

MAX_GROUPS = len(TABLES)
"""State groups of a bundle, at most: one launch copies what all their tables begin with."""


def state_group(
    layers: Iterable[int],
    kv_heads: int,
    head_dim: int,
    *,
    scales: bool,
    window: int | None = None,
) -> StateGroup:
    """What a bundle says about the pages of these layers; `scales`: with the buffers that only int8
    pages have."""
    numbers = tuple(layers)
    return StateGroup(
        kind="paged",
        layers=numbers,
        window=window,
        page_tokens=PAGE_TOKENS,
        kv_heads=kv_heads,
        head_dim=head_dim,
        buffers=tuple(f"kv.{i}" for i in range(len(numbers))),
        scales=tuple(f"kv_scale.{i}" for i in range(len(numbers))) if scales else (),
    )


def group_layers(
    windows: Sequence[int | None], context: int
) -> tuple[tuple[tuple[int, ...], int | None], ...]:
    """Which layers make up each state group, and its window.

    The groups of a bundle share one pool of pages, so a page of each has about as many layers. That
    is how vLLM's hybrid KV cache manager groups layers (`get_kv_cache_groups`): as many as there
    are of the kind with the fewest, or with the most where that is not many more.

    Args:
        windows: of every layer; None, or one that the context does not exceed, is none.
    """
    kinds: dict[int | None, list[int]] = {}
    for layer, window in enumerate(windows):
        kinds.setdefault(None if window is None or window >= context else window, []).append(layer)
    fewest, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
    size = most if 2 * most < 3 * fewest else fewest
    while sum(-(-len(layers) // size) for layers in kinds.values()) > MAX_GROUPS:
        size += 1
    groups: list[tuple[tuple[int, ...], int | None]] = []
    for window, layers in kinds.items():
        for first in range(0, len(layers), size):
            groups.append((tuple(layers[first : first + size]), window))
    # The first says what a page is: the others have the same buffers, or the first of them.
    return tuple(sorted(groups, key=lambda group: (-len(group[0]), group[1] is not None)))


def state_groups(
    windows: Sequence[int | None], context: int, kv_heads: int, head_dim: int, *, scales: bool
) -> tuple[StateGroup, ...]:
    """What a bundle says about pages: the groups that `group_layers` gives."""
    return tuple(
        state_group(layers, kv_heads, head_dim, scales=scales, window=window)
        for layers, window in group_layers(windows, context)
    )
