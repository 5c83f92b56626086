"""How many KV pages to keep: enough for every sequence at full length, if there is memory."""

from __future__ import annotations

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.state import page_rows, paged_state, pages_for, row_bytes

MAX_PAGES = 1 << 16
"""More than any plan allows."""

SHARE = 0.5
"""The part of the memory beside the weights that pages may take."""


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
) -> int:
    """Return the number of pages for `max_batch` sequences of `context` tokens each, and `beside`
    bytes more.

    Fewer where `SHARE` of the `available` bytes beside the weights, or the largest buffer the
    device allows for one layer's pages, cannot hold them, but always enough for one sequence.

    Raises DeviceError ``device.memory`` where not even one fits, and UnsupportedError
    ``unsupported.state`` as `paged_state` does.
    """
    group, (size,) = paged_state(bundle.manifest), program.page_bytes
    one = pages_for(context, group.page_tokens)
    wanted = max(one, min(one * bundle.model.max_batch + beside // size, MAX_PAGES))
    if largest_buffer is not None:
        layer = max(map(row_bytes, page_rows(group, program.state_dtype).values()))
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
