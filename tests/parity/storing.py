"""Writing tensors of tests as safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_weights(
    folder: Path, tensors: Mapping[str, NDArray[np.float32]], dtype: str, shards: int
) -> None:
    """Write ``model.safetensors``, or ``shards`` files and their index."""
    stored = {
        name: (dtype, values.shape, _stored(values, dtype)) for name, values in tensors.items()
    }
    if shards == 1:
        write_safetensors(folder / "model.safetensors", stored)
        return
    names, weight_map = list(stored), dict[str, str]()
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i::shards]
        write_safetensors(folder / file, {name: stored[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _stored(values: NDArray[np.float32], dtype: str) -> bytes:
    if dtype == "BF16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return values.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def write_safetensors(
    path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]
) -> None:
    """Write tensors given as dtype, shape and bytes, unchecked: tests write damaged files too."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        end = offset + len(data)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
