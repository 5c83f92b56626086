"""Disks that take no more, as far as a process can have them without rights."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_sizes_limited(size: int) -> Iterator[None]:
    """Let the system refuse this process every byte of a file beyond `size`, as a full disk does.

    Python ignores the signal that comes along, so a write fails with EFBIG.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
