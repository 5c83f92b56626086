"""What a state group says about memory, and which groups this version can run.

Nobody else decides how large a page is: whoever needs its tokens asks `paged_state` for the group,
which refuses what the kernels are not compiled for.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import prod

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import PAGE_TOKENS, RING, TABLES
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
    """The group that says what a page is, of a bundle whose groups list all state of its sequences.

    All groups take their pages from one pool: a page of any of them is a row of each buffer of this
    one. A group with fewer layers has the first of the buffers.

    Raises:
        UnsupportedError: ``unsupported.state`` for groups that this version cannot run: none, or
            too many, recurrent ones, pages of another size, buffers of their own.
    """
    groups = manifest.state_groups
    if not 1 <= len(groups) <= len(TABLES):
        raise _unsupported(manifest, f"{len(groups)} state groups", f"1 to {len(TABLES)}")
    for group in groups:
        for name, found, wanted in (
            ("kind", group.kind, "paged"),
            ("page_tokens", group.page_tokens, PAGE_TOKENS),
        ):
            if found != wanted:
                raise _unsupported(manifest, f"a state group whose {name!r} is {found!r}", wanted)
        for name, mine, first in (
            ("buffers", group.buffers, groups[0].buffers),
            ("scales", group.scales, groups[0].scales),
        ):
            if mine != first[: len(mine)]:
                found = f"a state group whose {name!r} are {shorten(mine)}"
                raise _unsupported(manifest, found, f"those of the first group, {shorten(first)}")
    return groups[0]


def pages_behind(window: int | None, computed: int, page_tokens: int) -> int:
    """How many pages, from the first, hold nothing that tokens see which follow so many, of layers
    with this window."""
    return 0 if window is None else max(computed - window + 1, 0) // page_tokens


def group_key(key: bytes, group: int) -> bytes:
    """What the page of a state group is called wherever pages are kept by one name.

    Args:
        key: what the pages of all groups that hold the same tokens are called (`kv.keys`), and that
            of the first one.
    """
    return sha256(key + group.to_bytes(4, "little")).digest() if group else key


@dataclass(frozen=True)
class Footprint:
    """How many pages a sequence takes, of all groups together.

    A group with a window has no pages that lie behind it: those that hold no token which one still
    to be computed sees.

    Attributes:
        windows: of each group; None for one that keeps all pages.
        step: the most tokens of a sequence that a step computes.
        page_tokens: tokens of a page.
    """

    windows: tuple[int | None, ...]
    step: int
    page_tokens: int

    @property
    def bounded(self) -> bool:
        """Whether any group has a window."""
        return any(window is not None for window in self.windows)

    def behind(self, window: int | None, computed: int) -> int:
        """How many pages, from the first, hold nothing that tokens see which follow so many."""
        return pages_behind(window, computed, self.page_tokens)

    def most(self, window: int | None) -> int | None:
        """The most pages of a group that a sequence holds at once; None for any number."""
        if window is None:
            return None
        # Those that a stretch of so many tokens can touch.
        return (window - 1 + self.step + self.page_tokens - 2) // self.page_tokens + 1

    def pages(self, tokens: int) -> int:
        """The most pages that a sequence of so many tokens comes to hold."""
        count = pages_for(tokens, self.page_tokens)
        return sum(count if most is None else min(count, most) for most in self._mosts)

    def tokens(self, pages: int, most: int) -> int:
        """The most tokens of a sequence, `most` at the outside, that so many pages hold."""
        low, high = 0, pages_for(most, self.page_tokens)
        while low < high:
            middle = (low + high + 1) // 2
            if self.pages(middle * self.page_tokens) <= pages:
                low = middle
            else:
                high = middle - 1
        return min(most, low * self.page_tokens)

    @property
    def _mosts(self) -> tuple[int | None, ...]:
        return tuple(map(self.most, self.windows))


def footprint(manifest: BundleManifest) -> Footprint:
    """How many pages sequences of a bundle take. Raises UnsupportedError as `paged_state` does."""
    page_tokens = paged_state(manifest).page_tokens
    windows = tuple(group.window for group in manifest.state_groups)
    return Footprint(windows, max(manifest.model.prefill_chunk, RING), page_tokens)


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


def _unsupported(manifest: BundleManifest, found: str, wanted: object) -> UnsupportedError:
    return UnsupportedError(
        f"Bundle {shorten(manifest.name)} has {found}; this version of edgewise runs {wanted}.",
        remedy="Update edgewise, or compile the model again with this version.",
        code="unsupported.state",
    )
