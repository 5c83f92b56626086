"""Every index of a kernel, proven to fit the integers that it is computed in.

TVM multiplies the indices of an element with what each counts, in the type of the indices, and a
sum beyond 2**31 is an address somewhere else. So nothing is compiled before each sum and product
that an index, a loop's length or a guard follows from is known to fit its type, whatever a step is.
Ranges start at constants, at loops and threads, and at what the host promises of its buffers
(`function.Arg`); of everything else in memory all that its type can hold is possible. A register
has the ranges of all that is stored in it, one that is counted up as much as its loops let it.

What is gone through is the kernel as it was written. The passes that come later only regroup the
terms of an index, and narrow no integer which they cannot prove to fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.ranges import DATA, BeyondError, Range
from edgewise_compiler.kernels.values import Values
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.state import PAGES

OPTIONS: Mapping[str, str] = {
    "n": "--prefill-chunk",
    "b": "--max-batch",
    "r": "--max-batch",
    "t": "--context",
    PAGES: "pool of pages",
}
"""What bounds each symbol of a plan."""


def beyond(
    function: PrimFunc,
    held: Sequence[tuple[Range, ...]],
    grid: Mapping[str, frozenset[str]] | None = None,
    calls: Mapping[str, Range] | None = None,
) -> Iterator[tuple[str, BeyondError]]:
    """The integers of a kernel that may be too large, each with the buffer that it is an index of.

    Args:
        held: for each argument what the integers in it are, column by column and the last for all
            others; () if they may be anything.
        grid: for ``blockIdx.x`` and ``blockIdx.y`` the plan's symbols that the grid follows from.
        calls: what calls give, by the name of what they call.
    """
    values = Values(function, held, grid or {}, calls or {})
    places = values.places
    for said in places.loops:
        try:
            values.check_length(said)
        except BeyondError as found:
            yield str(said.value), found
    for use in places.uses:
        try:
            values.check_use(use)
        except BeyondError as found:
            yield use.buffer.name, found


def refusal(kernel: str, where: str, found: BeyondError) -> UnsupportedError:
    """The error of a kernel whose integers may be too large.

    Args:
        where: the buffer that they are an index of, or the expression that they are in.
    """
    options = dict.fromkeys(OPTIONS[s] for s in sorted(found.found.of) if s != DATA)
    largest = max(found.found.high, -found.found.low)
    return UnsupportedError(
        f"The kernel {kernel!r} counts up to {largest:,} for {where!r}, more than {found.dtype} "
        "holds.",
        remedy=f"Choose a smaller {' or '.join(options)}."
        if options
        else "The model itself is too large for this target: compile it for another one.",
        code="unsupported.index",
    )
