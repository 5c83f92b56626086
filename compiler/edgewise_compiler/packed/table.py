"""The packed formats by name, and which one a checkpoint is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.packed.awq import AWQ
from edgewise_compiler.packed.base import WHERE, Matrices, Method
from edgewise_compiler.packed.compressed import COMPRESSED
from edgewise_compiler.packed.gptq import GPTQ
from edgewise_compiler.packed.mxfp4 import MXFP4
from edgewise_compiler.packed.names import KEYS, packing_of
from edgewise_compiler.weights.safetensors import SafetensorsReader

METHODS: Mapping[str, Method] = {method.name: method for method in (AWQ, GPTQ, COMPRESSED, MXFP4)}


def unpacked(
    config: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Callable[[SafetensorsReader], Matrices] | None]:
    """A config.json as that of a float model, and what finds the packed matrices, if there are any.

    What is not known stays in it, and is refused where the model is read.

    Raises:
        CheckpointError, UnsupportedError: see `Method.open`.
    """
    packing = packing_of(config)
    if packing is None:
        return config, None
    name, said = packing
    rest = {key: value for key, value in config.items() if key not in KEYS}
    return rest, METHODS[name].open(ConfigFields(said, WHERE))
