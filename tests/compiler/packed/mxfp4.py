"""Writes experts of gpt-oss in MXFP4, packed here from the format's description."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from edgewise_compiler.weights.safetensors import SafetensorsReader
from tests.compiler.packed.writing import Floats, Stored, stored_floats
from tests.parity.storing import write_safetensors

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What the codes 0 to 7 are in the format; those above are their negatives."""


def packed(values: Floats) -> tuple[Floats, dict[str, Stored]]:
    """Experts ``[experts, k, columns]`` rounded, and their tensors by the ends of their names."""
    groups = values.transpose(0, 2, 1).reshape(*values.shape[::2], -1, 32)
    exponents = np.floor(np.log2(np.abs(groups).max(axis=-1))).astype(np.int64) - 2
    steps = groups / 2.0 ** exponents[..., None]
    codes = np.abs(np.abs(steps)[..., None] - np.array(E2M1)).argmin(axis=-1)
    floats = np.sign(steps) * np.array(E2M1)[codes] * 2.0 ** exponents[..., None]
    codes += 8 * (steps < 0)
    blocks = codes[..., 0::2] + 16 * codes[..., 1::2]
    own = floats.reshape(*floats.shape[:2], -1).transpose(0, 2, 1).astype(np.float32)
    return own, {
        "_blocks": ("U8", blocks.shape, blocks.astype(np.uint8).tobytes()),
        "_scales": ("U8", exponents.shape, (exponents + 127).astype(np.uint8).tobytes()),
    }


def write_both(
    folder: Path, out: Path, change: Callable[[dict[str, Stored]], None] = lambda tensors: None
) -> tuple[Path, Path]:
    """The checkpoint with packed experts, and with the floats that they stand for."""
    paths = out / "packed", out / "plain"
    tensors: tuple[dict[str, Stored], dict[str, Stored]] = {}, {}
    with SafetensorsReader(folder) as reader:
        for name in reader.names():
            values = reader.read(name)
            if values.ndim == 3:
                values, ends = packed(values)
                tensors[0].update({name + end: tensor for end, tensor in ends.items()})
            else:
                tensors[0][name] = stored_floats(values, "BF16")
            tensors[1][name] = stored_floats(values, "F32" if values.ndim == 3 else "BF16")
    change(tensors[0])
    says: tuple[Mapping[str, object], ...] = (
        {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}},
        {},
    )
    for path, own, more in zip(paths, tensors, says, strict=True):
        shutil.copytree(folder, path, ignore=shutil.ignore_patterns("*.safetensors*"))
        config = json.loads((folder / "config.json").read_text()) | more
        (path / "config.json").write_text(json.dumps(config))
        write_safetensors(path / "model.safetensors", own)
    return paths
