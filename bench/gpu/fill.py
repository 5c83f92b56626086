"""Bundles without weights, and weights at random for them: speed depends on sizes, not on values.

A bundle of gigabytes is a few hundred kilobytes of plans and shaders beside its parameters. Only
those travel; where the bundle is run, `fill` makes parameters of the right sizes. NumPy and the
runtime only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checkpoint import write_tokenizer
from edgewise_runtime.format.bundle import (
    TensorEntry,
    describe_files,
    read_manifest,
    write_manifest,
)

CHUNK = 32 << 20
"""Bytes made at once, a multiple of every element's size."""

DEVIATION = 0.02
"""Of weights, as models are initialized; it keeps activations and logits finite."""

SCALES = {
    "q4": DEVIATION / 4.6,
    "q4a": DEVIATION / 4.6,
    "q4k": DEVIATION / 4.6,
    "q5": DEVIATION / 9.2,
    "q6": DEVIATION / 18.5,
    "q8": DEVIATION / 74.0,
    "q4_nl": DEVIATION / 6.1,
    "q5_nl": DEVIATION / 12.2,
    "q6_nl": DEVIATION / 24.4,
    "iq4_nl": DEVIATION / 67.4,
    "mxfp4": DEVIATION / 5.9,
}
"""A group's scale: the deviation of weights over that of random bytes' values."""

THETA = 1e4


def fill(folder: Path, seed: int = 0) -> None:
    """Make the parameters and the tokenizer that ``folder``, an unfinished bundle, lacks."""
    manifest = read_manifest(folder)
    rng = np.random.default_rng(seed)
    for layout in manifest.layouts.values():
        for name, entry in layout.items():
            path = folder / entry.file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                for chunk in contents(name, entry, manifest.model.quant, rng):
                    out.write(chunk.tobytes())
    write_tokenizer(folder, manifest.model.vocab, manifest.model.context)
    write_manifest(folder, replace(manifest, files=describe_files(folder)))


def contents(
    name: str, entry: TensorEntry, quant: str, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.uint8]]:
    """A tensor of the ``gpu`` layout in chunks of bytes."""
    if name == "rope":
        yield _bytes(_rope(*entry.shape))
        return
    for start in range(0, entry.bytes, CHUNK):
        size = min(CHUNK, entry.bytes - start)
        if name.endswith("scale"):
            yield _bytes(_numbers(quant, entry, size))
        elif name.endswith(".bias"):
            yield np.zeros(size, np.uint8)
        elif len(entry.shape) == 1 or name.endswith("_norm.weight"):
            yield _bytes(np.ones(size // 4, np.float32))
        elif quant in SCALES:
            yield np.frombuffer(rng.bytes(size), np.uint8)
        else:
            dtype = np.dtype(np.float32 if quant == "f32" else np.float16)
            values = rng.standard_normal(size // dtype.itemsize, np.float32)
            yield _bytes((values * np.float32(DEVIATION)).astype(dtype))


def _numbers(quant: str, entry: TensorEntry, size: int) -> npt.NDArray[np.float16]:
    """Bytes of the tensor of groups' numbers: scales alike, and minima that center weights."""
    scale = SCALES[quant]
    if quant.endswith("_nl") and quant != "iq4_nl":  # bytes of one under a unit for each row
        row = np.full(entry.shape[-1] * 2, 0x0101, np.uint16).view(np.float16)
        row[:2] = np.array([scale / 129], np.float32).view(np.float16)
    elif quant == "q4k":  # scales and minima of 33, whose units follow
        fours = np.array([0x11111111, 0x11111111, 0xAAAAAAAA], np.uint32).view(np.float16)
        row = np.concatenate([fours, np.array([scale / 33, scale * 7.5 / 33], np.float16)])
    else:
        row = np.array([scale, scale * 7.5] if quant == "q4a" else [scale], np.float16)
    return np.resize(row, size // 2)


def _rope(context: int, _: int, half: int) -> npt.NDArray[np.float32]:
    """Cosines and sines [context, 2, head_dim / 2] of the plain kind."""
    angles = np.outer(np.arange(context), THETA ** (-np.arange(half) / half))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def _bytes(array: npt.NDArray[np.float16] | npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
