"""A checkpoint as it is stored: the recipe that its file is, and the codes that it brings."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import Schemes, linears_of, recipe_of
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import AS_FILE, Recipe, Scheme, find_scheme
from edgewise_compiler.quantize.codes import Holders, RowSource

_FLOATS: Mapping[str, Holders] = {"F16": {"f16": None, "f32": None}}
"""What holds floats by how they are stored: float16 and all that float32 has."""

_F32: Holders = {"f32": None}

_BESIDE_INTEGERS: Holders = {"q8": None}
"""What holds floats where other matrices are quantized: no program computes with both."""


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Whether a matrix of the checkpoint is quantized as it is stored."""
    sources = {name for linear in _linears(checkpoint) for name in linear.sources}
    return not sources.isdisjoint(checkpoint.held)


def file_recipe(checkpoint: Checkpoint) -> Recipe:
    """The recipe that keeps what a file has: for each linear the narrowest scheme that holds it.

    Tensors that are computed as one matrix, and differ in their types, get the narrowest scheme
    that holds all of them. The default is the scheme that most weights have.
    """
    quantized = is_quantized(checkpoint)
    linears = _linears(checkpoint)
    schemes: dict[str, Scheme] = {}
    for linear in linears:
        parts = [_holders(checkpoint, name, quantized) for name in linear.sources]
        narrowest = next(name for name in parts[0] if all(name in part for part in parts))
        schemes[linear.name] = find_scheme(narrowest)
    return recipe_of(AS_FILE, linears, schemes)


def file_codes(checkpoint: Checkpoint, schemes: Schemes) -> dict[str, RowSource]:
    """The tensors that have codes of the scheme of their linear in the file, and these codes."""
    found = {
        name: checkpoint.held.get(name, {}).get(schemes[linear.name].name)
        for linear in _linears(checkpoint)
        for name in linear.sources
    }
    return {name: codes for name, codes in found.items() if codes is not None}


def _linears(checkpoint: Checkpoint) -> list[LinearSpec]:
    return linears_of(checkpoint.family.params(checkpoint.model))


def _holders(checkpoint: Checkpoint, name: str, quantized: bool) -> Holders:
    if not quantized:
        return _FLOATS.get(checkpoint.weights.dtype(name), _F32)
    return checkpoint.held.get(name, _BESIDE_INTEGERS)
