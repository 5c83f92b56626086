"""How many KV pages to keep: enough for every sequence at full length, if there is memory."""

from __future__ import annotations

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle, Program, StateGroup
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.kv.pages import pages_for

__all__ = ["page_bytes", "pages_for", "pool_pages", "weight_bytes"]

MAX_PAGES = 1 << 16
"""More than any plan allows."""

SHARE = 0.5
"""The part of the memory beside the weights that pages may take."""


def page_bytes(bundle: Bundle, program: Program) -> int:
    """Return the bytes of one page over all layers."""
    return sum(sum(_page_buffers(g, program)) * len(g.layers) for g in _paged(bundle))


def weight_bytes(bundle: Bundle, program: Program) -> int:
    """Return the bytes of the layout whose weights the program uses."""
    return sum(tensor.bytes for tensor in bundle.manifest.layouts[program.layout].values())


def pool_pages(
    bundle: Bundle,
    program: Program,
    context: int,
    available: int | None,
    largest_buffer: int | None = None,
) -> int:
    """Return the number of pages for `max_batch` sequences of `context` tokens each.

    Fewer where `SHARE` of the `available` bytes beside the weights, or the largest buffer the
    device allows for one layer's pages, cannot hold them, but always enough for one sequence.

    Raises DeviceError ``device.memory`` where not even one fits.
    """
    one, size = pages_for(context), page_bytes(bundle, program)
    wanted = max(one, min(one * bundle.model.max_batch, MAX_PAGES))
    if largest_buffer is not None:
        layer = max((max(_page_buffers(g, program)) for g in _paged(bundle)), default=1)
        if one * layer > largest_buffer:
            raise DeviceError(
                f"One layer's KV pages of a sequence of {context:,} tokens take "
                f"{one * layer >> 20:,} MiB; this device's buffers hold {largest_buffer >> 20:,}.",
                remedy="Choose a smaller context.",
                code="device.memory",
            )
        wanted = min(wanted, largest_buffer // layer)
    if available is None:
        return wanted
    weights = weight_bytes(bundle, program)
    left = max(available - weights, 0)
    if one * size > left:
        raise DeviceError(
            f"The model takes {weights >> 20:,} MiB and the KV pages of one sequence of "
            f"{context:,} tokens {one * size >> 20:,} MiB; {available >> 20:,} MiB are available.",
            remedy="Choose a smaller context, a smaller model or a smaller quantization.",
            code="device.memory",
        )
    return max(one, min(wanted, int(left * SHARE) // size))


def _paged(bundle: Bundle) -> list[StateGroup]:
    return [group for group in bundle.manifest.state_groups if group.kind == "paged"]


def _page_buffers(group: StateGroup, program: Program) -> list[int]:
    """Bytes of one page in each buffer of a layer: keys and values, and their scales in int8."""
    tokens = group.kv_heads * group.page_tokens
    numbers = 2 * tokens * group.head_dim * DTYPES[program.state_dtype]
    return [numbers, tokens * DTYPES["uint32"]] if program.state_dtype == "int8" else [numbers]
