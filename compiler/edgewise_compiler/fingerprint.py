"""Telling checkpoints apart by every one of their weights."""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.weights.base import WeightReader

BLOCK = 16 << 20
"""Bytes of float32 that are read and hashed at a time, and"""
AHEAD = 4
"""how many such blocks are hashed while the next is read."""

MEANING = 2
"""Counted up when a scheme makes other codes of a weight, or codes come to mean other weights:
programs and kept pages of before do not go with what is packed now."""


def weights_fingerprint(
    checkpoint: Checkpoint,
    schemes: Schemes,
    calibration: bytes = b"",
    own: Collection[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """A sha256 that differs between models, between schemes of one, and between ways to codes.

    It covers the model's configuration and the name, the shape and all values of every tensor:
    programs share a bundle's weights by it, and a few rows that differ are another model.

    Args:
        calibration: the tokens that codes were chosen with.
        own: the tensors that keep the codes of their file.
        progress: hears how many values of how many were read.
    """
    digest = hashlib.sha256(f"{MEANING} {_text(schemes)}".encode())
    digest.update(calibration)
    digest.update("".join(f"\n{name} as it is" for name in sorted(own)).encode())
    digest.update(json.dumps(asdict(checkpoint.model), sort_keys=True).encode())
    reader = checkpoint.weights
    total, done = sum(math.prod(reader.shape(name)) for name in reader.names()), 0
    with ThreadPoolExecutor(AHEAD) as pool:
        pending: deque[Future[bytes]] = deque()
        for name in sorted(reader.names()):
            digest.update(f"\n{name}{list(reader.shape(name))}".encode())
            for block in _blocks(reader, name):
                pending.append(pool.submit(_sha256, block))
                while len(pending) > AHEAD:
                    digest.update(pending.popleft().result())
                done += block.size
                progress(done, total)
            while pending:
                digest.update(pending.popleft().result())
    return digest.hexdigest()


def _blocks(reader: WeightReader, name: str) -> Iterator[NDArray[np.float32]]:
    """All rows of a tensor, in pieces of about `BLOCK` bytes; none of a scalar."""
    shape = reader.shape(name)
    if not shape or not all(shape):
        return
    rows = max(1, BLOCK // (4 * math.prod(shape[1:])))
    for start in range(0, shape[0], rows):
        yield np.ascontiguousarray(reader.read(name, start, min(start + rows, shape[0])))


def _sha256(block: NDArray[np.float32]) -> bytes:
    return hashlib.sha256(block.data).digest()


def _text(schemes: Schemes) -> str:
    """The one scheme of all linears, or that of each: what a recipe is called changes nothing."""
    names = {linear: scheme.name for linear, scheme in schemes.items()}
    used = sorted(set(names.values()))
    return used[0] if len(used) == 1 else json.dumps(names, sort_keys=True)
