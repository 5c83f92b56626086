"""Telling checkpoints apart without reading all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict

import numpy as np

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import Schemes

SAMPLES = 16
"""Rows of each tensor that are looked at, evenly spaced, the first and the last among them."""

MEANING = 2
"""Counted up when a scheme makes other codes of a weight, or codes come to mean other weights:
programs and kept pages of before do not go with what is packed now."""


def weights_fingerprint(
    checkpoint: Checkpoint,
    schemes: Schemes,
    calibration: bytes = b"",
    own: Collection[str] = (),
) -> str:
    """A sha256 that differs between models, between schemes of one, and between ways to codes.

    It covers the model's configuration, the name and shape of every tensor and the values of up to
    16 rows of each: any training step changes those, and reading them takes no time.

    Args:
        calibration: the tokens that codes were chosen with.
        own: the tensors that keep the codes of their file.
    """
    digest = hashlib.sha256(f"{MEANING} {_text(schemes)}".encode())
    digest.update(calibration)
    digest.update("".join(f"\n{name} as it is" for name in sorted(own)).encode())
    digest.update(json.dumps(asdict(checkpoint.model), sort_keys=True).encode())
    reader = checkpoint.weights
    for name in sorted(reader.names()):
        shape = reader.shape(name)
        digest.update(f"\n{name}{list(shape)}".encode())
        if not shape or not all(shape):
            continue
        rows = np.unique(np.linspace(0, shape[0] - 1, min(SAMPLES, shape[0])).astype(int))
        for row in rows.tolist():
            digest.update(np.ascontiguousarray(reader.read(name, row, row + 1)).tobytes())
    return digest.hexdigest()


def _text(schemes: Schemes) -> str:
    """The one scheme of all linears, or that of each: what a recipe is called changes nothing."""
    names = {linear: scheme.name for linear, scheme in schemes.items()}
    used = sorted(set(names.values()))
    return used[0] if len(used) == 1 else json.dumps(names, sort_keys=True)
