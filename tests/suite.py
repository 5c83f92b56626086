"""Which of the suites is run, as make says; by hand all that a change must pass."""

from __future__ import annotations

import os

SUITE = os.environ.get("EDGEWISE_SUITE", "landing")

if SUITE not in ("quick", "landing", "full"):
    raise ValueError(f"EDGEWISE_SUITE is quick, landing or full, not {SUITE!r}")

QUICK = SUITE == "quick"
"""Whether it is a sample of what a change must pass."""

FULL = SUITE == "full"
"""Whether every test is run at its full count."""
