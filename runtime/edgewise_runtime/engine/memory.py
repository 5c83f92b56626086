"""How many KV pages to keep: enough for every sequence at full length, if there is memory."""

from __future__ import annotations

from edgewise_runtime.bundle import Bundle
from edgewise_runtime.dtypes import DTYPES
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.kv.pages import pages_for
from edgewise_runtime.limits import available_memory

__all__ = ["fitting_pages", "page_bytes", "pages_for", "pool_pages"]

MAX_PAGES = 1 << 16
"""More than any plan allows."""

SHARE = 0.5
"""The part of the memory beside the weights that pages may take."""


def page_bytes(bundle: Bundle) -> int:
    """Return the bytes of one page over all layers."""
    return sum(
        2 * g.kv_heads * g.page_tokens * g.head_dim * DTYPES[g.dtype] * len(g.layers)
        for g in bundle.manifest.state_groups
        if g.kind == "paged"
    )


def pool_pages(bundle: Bundle, context: int, available: int | None) -> int:
    """Return the number of pages for `max_batch` sequences of `context` tokens each.

    Fewer where `SHARE` of the `available` bytes beside the weights cannot hold them, but always
    enough for one sequence.

    Raises DeviceError ``device.memory`` where not even one fits.
    """
    one, size = pages_for(context), page_bytes(bundle)
    wanted = max(one, min(one * bundle.model.max_batch, MAX_PAGES))
    if available is None:
        return wanted
    left = max(available - bundle.total_bytes, 0)
    if one * size > left:
        raise DeviceError(
            f"The model takes {bundle.total_bytes >> 20:,} MiB and the KV pages of one sequence of "
            f"{context:,} tokens {one * size >> 20:,} MiB; {available >> 20:,} MiB are available.",
            remedy="Choose a smaller context, a smaller model or a smaller quantization.",
            code="device.memory",
        )
    return max(one, min(wanted, int(left * SHARE) // size))


def fitting_pages(bundle: Bundle, context: int) -> int:
    """Return `pool_pages` for the memory this process can still take."""
    return pool_pages(bundle, context, available_memory())
