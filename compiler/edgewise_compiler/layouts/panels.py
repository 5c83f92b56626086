"""A family's parameters as tensors of a weight layout: what they will be, and packing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgewise_compiler.layouts.shards import open_shards
from edgewise_compiler.models.base import LinearSpec, ParamSpec, RotationSpec, VectorSpec
from edgewise_compiler.models.rope import rope_table
from edgewise_compiler.plan.calls import Tensor
from edgewise_compiler.quantize import ArraySpec, Scheme
from edgewise_compiler.quantize.linear import linear_arrays, pack_linear, read_vector
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.format.bundle import TensorEntry


def layout_specs(
    scheme: Scheme, params: tuple[ParamSpec, ...], context: int
) -> dict[str, ArraySpec]:
    """Dtype and shape of every tensor of the ``cpu`` layout, by buffer name."""
    specs: dict[str, ArraySpec] = {}
    for param in params:
        if isinstance(param, LinearSpec):
            specs |= linear_arrays(scheme, param)
        elif isinstance(param, RotationSpec):
            specs[param.name] = ArraySpec("float32", (context, 2, param.width // 2))
        else:
            specs[f"{param.name}.weight"] = ArraySpec("float32", (param.size,))
    return specs


def param_tensors(specs: Mapping[str, ArraySpec]) -> dict[str, Tensor]:
    """The same tensors as plans name them."""
    return {name: Tensor(name, "param", spec.dtype, spec.shape) for name, spec in specs.items()}


def linear_widths(specs: Mapping[str, ArraySpec]) -> dict[str, int]:
    """Output columns of each packed linear, padding included."""
    return {
        name.removesuffix(".weight"): spec.shape[0] * spec.shape[2]
        for name, spec in specs.items()
        if name.endswith(".weight") and len(spec.shape) == 3
    }


def pack_layout(
    folder: Path,
    prefix: str,
    scheme: Scheme,
    params: tuple[ParamSpec, ...],
    specs: Mapping[str, ArraySpec],
    reader: WeightReader,
    progress: Callable[[int, int], None],
) -> Mapping[str, TensorEntry]:
    """Read, quantize and write every parameter, one at a time.

    Args:
        progress: told how many parameters of how many are written.

    Raises:
        CheckpointError: a tensor is missing, mis-shaped, not finite or out of the scheme's range.
        StorageError: the disk is full or not writable.
    """
    with open_shards(folder, prefix, specs) as shards:
        for done, param in enumerate(params):
            progress(done, len(params))
            if isinstance(param, VectorSpec):
                shards.arrays[f"{param.name}.weight"][:] = read_vector(param, reader)
            elif isinstance(param, RotationSpec):
                context = specs[param.name].shape[0]
                shards.arrays[param.name][:] = rope_table(param.rope, param.width, context)
            else:
                names = linear_arrays(scheme, param)
                pack_linear(scheme, param, reader, {name: shards.arrays[name] for name in names})
        progress(len(params), len(params))
        return shards.entries
