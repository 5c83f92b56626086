"""How many KV pages to keep: enough for every sequence at full length, if there is memory."""

from __future__ import annotations

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.abi import MAX_PAGES
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.state import footprint, page_rows, paged_state, row_bytes

SHARE = 0.5
"""The part of the memory beside the weights that pages may take."""

USUAL_CONTEXT = 4096
"""Tokens of each sequence that there are pages for where nobody knows how much room there is."""

LEAST_CONTEXT = 256
"""Tokens of a sequence that there must be pages for where nobody asked for a number."""


def weight_bytes(bundle: Bundle, program: Program) -> int:
    """Return the bytes of the layout whose weights the program uses."""
    return sum(tensor.bytes for tensor in bundle.manifest.layouts[program.layout].values())


def pool_pages(
    bundle: Bundle,
    program: Program,
    context: int,
    available: int | None,
    largest_buffer: int | None = None,
    beside: int = 0,
    least: int | None = None,
) -> int:
    """Return the number of pages for `max_batch` sequences of `context` tokens each, and `beside`
    bytes more.

    Fewer where `SHARE` of the `available` bytes beside the weights, or the largest buffer the
    device allows for one layer's pages, cannot hold them. A device that does not tell what is
    available gives what is asked of it at once: pages for one sequence, or for `USUAL_CONTEXT`
    tokens of each.

    Args:
        context: tokens of a sequence, at most.
        least: tokens of one that there must be pages for; None for all of `context`.

    Raises:
        DeviceError: ``device.memory`` where not even those fit.
        UnsupportedError: ``unsupported.state`` as `paged_state` does.
    """
    group, size = paged_state(bundle.manifest), program.page_bytes[0]
    sizes = footprint(bundle.manifest)
    one = sizes.pages(context)
    least = context if least is None else min(least, context)
    needed = sizes.pages(least)
    each = one
    if available is None:
        each = min(one, sizes.pages(USUAL_CONTEXT))
    wanted = max(one, min(each * bundle.model.max_batch + beside // size, MAX_PAGES))
    if largest_buffer is not None:
        layer = max(map(row_bytes, page_rows(group, program.state_dtype).values()))
        if needed * layer > largest_buffer:
            raise DeviceError(
                f"One layer's KV pages of a sequence of {least:,} tokens take "
                f"{needed * layer >> 20:,} MiB; this device's buffers hold "
                f"{largest_buffer >> 20:,}.",
                remedy="Choose a smaller context.",
                code="device.memory",
            )
        wanted = min(wanted, largest_buffer // layer)
    if available is None:
        return wanted
    weights = weight_bytes(bundle, program)
    left = max(available - weights, 0)
    if needed * size > left:
        raise DeviceError(
            f"The model takes {weights >> 20:,} MiB and the KV pages of one sequence of "
            f"{least:,} tokens {needed * size >> 20:,} MiB; {available >> 20:,} MiB are available.",
            remedy="Choose a smaller context, a smaller model or a smaller quantization.",
            code="device.memory",
        )
    return max(needed, min(wanted, int(left * SHARE) // size))
