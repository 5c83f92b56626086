"""Telling checkpoints apart by every one of their weights."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import MISSING, asdict, fields
from typing import Any

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.weights.files import Bytes

AHEAD = 4
"""Pieces of a tensor that are hashed while the next is read."""

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

    It covers the model's configuration and the name, the shape and all bytes of every tensor, as
    they are stored: programs share a bundle's weights by it, and one row that differs is enough to
    make another model.

    Args:
        calibration: the tokens that codes were chosen with.
        own: the tensors that keep the codes of their file.
        progress: hears how many bytes of how many were read.
    """
    digest = hashlib.sha256(f"{MEANING} {_text(schemes)}".encode())
    digest.update(calibration)
    digest.update("".join(f"\n{name} as it is" for name in sorted(own)).encode())
    digest.update(json.dumps(_said(checkpoint.model), sort_keys=True).encode())
    reader = checkpoint.weights
    total, done = sum(map(reader.size, reader.names())), 0
    progress(done, total)
    with ThreadPoolExecutor(AHEAD) as pool:
        for name in sorted(reader.names()):
            shape = reader.shape(name)
            digest.update(f"\n{name} {reader.dtype(name)} {list(shape)}".encode())
            pending: deque[Future[bytes]] = deque()
            end = done + reader.size(name)
            for piece in reader.stored(name):
                pending.append(pool.submit(_sha256, piece))
                done += piece.nbytes
                if done < end:
                    progress(done, total)
                if len(pending) > AHEAD:
                    digest.update(pending.popleft().result())
            for hashed in pending:
                digest.update(hashed.result())
            done = end
            progress(done, total)
    return digest.hexdigest()


def _said(model: ModelConfig) -> dict[str, Any]:
    """The configuration, without the traits that a model lacks: a trait that comes to be known
    leaves the other models' fingerprints as they are."""
    said = asdict(model)
    for field in fields(model):
        if field.default is not MISSING and said[field.name] == field.default:
            del said[field.name]
    if not said["rope"]["short_divisors"]:
        del said["rope"]["short_divisors"]
    return said


def _sha256(piece: Bytes) -> bytes:
    return hashlib.sha256(piece.data).digest()


def _text(schemes: Schemes) -> str:
    """The one scheme of all linears, or that of each: what a recipe is called changes nothing."""
    names = {linear: scheme.name for linear, scheme in schemes.items()}
    used = sorted(set(names.values()))
    return used[0] if len(used) == 1 else json.dumps(names, sort_keys=True)
