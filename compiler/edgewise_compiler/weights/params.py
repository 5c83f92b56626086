"""A family's parameters against the tensors that a checkpoint has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgewise_compiler.models.base import LinearSpec, ParamSpec, RotationSpec, VectorSpec
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.errors import CheckpointError


def param_sources(spec: ParamSpec) -> dict[str, tuple[int, ...]]:
    """The checkpoint's tensors that ``spec`` is made of, and the shape each must have."""
    if isinstance(spec, RotationSpec):
        return {}  # It is computed.
    if isinstance(spec, VectorSpec):
        return {spec.source: (spec.size,)}
    shapes: dict[str, tuple[int, ...]] = {
        name: (rows, spec.k) for name, rows in zip(spec.sources, spec.rows, strict=True)
    }
    if spec.biases is None:
        return shapes
    return shapes | {name: (rows,) for name, rows in zip(spec.biases, spec.rows, strict=True)}


def check_param(spec: ParamSpec, reader: WeightReader) -> None:
    """Raise CheckpointError unless every source of ``spec`` is there with its proper shape."""
    for name, shape in param_sources(spec).items():
        found = reader.shape(name)
        if found != shape:
            raise CheckpointError(
                f"{name} has shape {list(found)}; config.json asks for {list(shape)}.",
                remedy="Use weights and config.json of the same checkpoint.",
                code="checkpoint.shape",
            )


@contextmanager
def naming(spec: LinearSpec, source: str) -> Iterator[None]:
    """Errors of what is done with one of a linear's tensors say which."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(
            f"{spec.name} ({source}): {error.message}", remedy=error.remedy, code=error.code
        ) from error
