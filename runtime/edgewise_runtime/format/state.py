"""What a state group says about memory, and which groups this version can run.

Nobody else decides how large a page is: whoever needs its tokens asks `paged_state` for the group,
which refuses what the kernels are not compiled for.
"""

from __future__ import annotations

from math import prod

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.manifest import BundleManifest, StateGroup
from edgewise_runtime.format.reading import shorten

PAGES = "pages"
"""The load symbol that is the number of pages: the first extent of every buffer of pages."""

Row = tuple[str, tuple[int, ...]]
"""A page's part of one buffer: dtype and shape."""


def pages_for(tokens: int, page_tokens: int) -> int:
    """How many pages of so many tokens hold this many."""
    return -(-tokens // page_tokens)


def paged_state(manifest: BundleManifest) -> StateGroup:
    """The group that lists all state of a bundle's sequences.

    Raises:
        UnsupportedError: ``unsupported.state`` for groups that this version cannot run: none, or
            several, recurrent ones, sliding windows, pages of another size.
    """
    groups = manifest.state_groups
    if len(groups) != 1:
        raise _unsupported(manifest, f"{len(groups)} state groups", "one")
    (group,) = groups
    for name, found, wanted in (
        ("kind", group.kind, "paged"),
        ("window", group.window, None),
        ("page_tokens", group.page_tokens, PAGE_TOKENS),
    ):
        if found != wanted:
            expected = "null" if wanted is None else repr(wanted)
            raise _unsupported(manifest, f"a state group whose {name!r} is {found!r}", expected)
    return group


def page_rows(group: StateGroup, dtype: str) -> dict[str, Row]:
    """What a page of a paged group is made of, by buffer, in the order of a page's bytes.

    Args:
        dtype: what the program keeps in the group's buffers; int8 has scales beside them.
    """
    numbers = (2, group.kv_heads, group.page_tokens * group.head_dim)
    rows: dict[str, Row] = dict.fromkeys(group.buffers, (dtype, numbers))
    if dtype == "int8":
        rows |= dict.fromkeys(group.scales, ("uint32", (group.kv_heads, group.page_tokens)))
    return rows


def row_bytes(row: Row) -> int:
    """Bytes of a page's part of one buffer."""
    dtype, shape = row
    return prod(shape) * DTYPES[dtype]


def _unsupported(manifest: BundleManifest, found: str, wanted: str) -> UnsupportedError:
    return UnsupportedError(
        f"Bundle {shorten(manifest.name)} has {found}; this version of edgewise runs {wanted}.",
        remedy="Update edgewise, or compile the model again with this version.",
        code="unsupported.state",
    )
