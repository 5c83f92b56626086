"""What the phases of a compilation are called, and which of them count bytes.

Loading this module loads nothing else: who shows progress needs the names.
"""

from __future__ import annotations

WAITING = "Waiting for another compilation"
CHECKING = "Checking weights"
READING = "Reading"
CALIBRATING = "Calibrating"
PACKING = "Packing weights"
HASHING = "Hashing files"
PROVING = "Computing the proof"
WRITING = "Writing the bundle"

IN_BYTES = frozenset({CHECKING, READING, CALIBRATING, PACKING, HASHING, PROVING})
"""Phases whose numbers are bytes: those that take as long as a model is large."""
