"""How much memory a process has to itself."""

from __future__ import annotations

import sys
from pathlib import Path

_OWN = ("RssAnon", "RssShmem", "VmSwap")
KNOWN = sys.platform == "linux"
"""Whether this system tells."""


def resident_bytes(process: int) -> int | None:
    """Bytes that nobody else could have without its end: files that it maps do not count.

    None where that is not known: the process has ended, or the system does not tell.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    held = dict(line.split(":", 1) for line in lines if ":" in line)
    found = [int(held[name].split()[0]) << 10 for name in _OWN if name in held]
    return sum(found) if found else None
