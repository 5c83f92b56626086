"""What keeps its codes unless told otherwise, told from a glance at a path. Loads nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from edgewise_compiler.gguf.names import is_gguf
from edgewise_compiler.mlc.names import is_mlc
from edgewise_compiler.packed.names import packing_of

MOST = 4 << 20
"""Bytes of a config.json."""


def keeps_codes(path: Path) -> bool:
    """Whether a checkpoint is of a kind that is quantized as it is stored.

    Nothing is checked: a path that is no checkpoint, or a damaged one, keeps none.
    """
    if is_gguf(path) or is_mlc(path):
        return True
    try:
        config = path / "config.json"
        if config.stat().st_size > MOST:
            return False
        found = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and packing_of(found) is not None
