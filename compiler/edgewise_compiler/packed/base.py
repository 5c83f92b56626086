"""What packed formats have in common: integers, groups with a scale and a zero, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE
from edgewise_compiler.quantize.codes import Floats
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.reading import shorten

Codes = NDArray[np.uint8]
Zeros = NDArray[np.int16]
Order = NDArray[np.intp]


@dataclass(frozen=True)
class Integers:
    """Some rows of a matrix: a weight is ``(code - zero) * scale``.

    Attributes:
        codes: ``[rows, k]``.
        zeros: ``[rows, groups]``; as many columns share one as groups fit into ``k``.
        scales: float32 ``[rows, groups]``.
        order: the group of each column, ``[k]``; None where they follow each other.
    """

    codes: Codes
    zeros: Zeros
    scales: Floats
    order: Order | None = None

    def floats(self) -> Floats:
        """The weights in float32 ``[rows, k]``: exact where scales have 16 bits."""
        values = self.codes.astype(np.float32)
        values -= self.spread(self.zeros)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= self.spread(self.scales)
        return values

    def spread(self, numbers: NDArray[np.int16] | Floats) -> NDArray[np.int16] | Floats:
        """Numbers of groups ``[rows, groups]``, one for each column."""
        if self.order is not None:
            return numbers[:, self.order]
        wide: NDArray[np.int16] | Floats = numbers.repeat(
            self.codes.shape[1] // numbers.shape[1], axis=1
        )
        return wide


@dataclass(frozen=True)
class Matrix:
    """A quantized matrix of a checkpoint.

    Attributes:
        shape: output rows and input columns, as the checkpoint had them before.
        bits: of a code.
        kind: how it is stored, in words: where two differ, the same bytes are other weights.
        parts: the tensors that it is stored in.
        centred: whether every zero is the middle of the codes.
        ordered: whether columns of a group follow each other.
        table: the scheme of `quantize.tables` whose values, less the lowest, codes are; None where
            codes are integers of ``bits`` bits.
        ranges: of each part the first byte and how many there are, where the matrix is one of many
            in it; None for all of each.
        rows: rows ``start..stop``; of some formats with more columns, that make whole groups of 32.
    """

    shape: tuple[int, int]
    bits: int
    kind: str
    parts: tuple[str, ...]
    centred: Callable[[], bool]
    rows: Callable[[int, int], Integers]
    ordered: bool = True
    table: str | None = None
    ranges: tuple[tuple[int, int], ...] | None = None


Matrices = Mapping[str, Matrix]
"""By the name that the matrix has where it is not quantized."""


@dataclass(frozen=True)
class Method:
    """A format: how config.json describes it, and what of it is read.

    Attributes:
        name: ``quant_method`` in config.json.
        title: as people call it.
        reads: what is read, in words, and the schemes that hold it, narrowest first.
        refuses: what is refused by its name, in words.
        open: what config.json says to what finds the matrices among a checkpoint's tensors. Raises
            UnsupportedError for what is not implemented, CheckpointError for what is malformed.
    """

    name: str
    title: str
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    refuses: tuple[str, ...]
    open: Callable[[ConfigFields], Callable[[SafetensorsReader], Matrices]]


FROM_FLOATS = ("q5", "q6", "q8")
"""Schemes that hold four bits whose columns are in another order: made from floats, since columns
of a group have to lie beside each other. The first adds at most half of the squared error that four
bits have (docs/decisions/0011)."""

WHERE = "quantization_config in config.json"


def refused(title: str, what: str, have: str) -> UnsupportedError:
    """The error for something of a format that is not implemented.

    Args:
        what: with its value, in words that follow the format's name.
        have: what there is, in words that follow "Use a folder with".
    """
    return UnsupportedError(
        f"Not implemented: {title} with {what}.",
        remedy=f"Use a folder with {have}, or the checkpoint that it was made from; see {PAGE}.",
        code="unsupported.quantized",
    )


def check_group(title: str, size: int) -> None:
    """Refuse groups that ours do not fit into; -1 is a group for a whole row."""
    if size != -1 and (size <= 0 or size % GROUP):
        raise refused(title, f"group_size {size}", f"groups of a multiple of {GROUP} columns")


def groups_of(title: str, name: str, k: int, size: int) -> int:
    """How many groups the ``k`` columns of a matrix make.

    Raises UnsupportedError where groups, ours or the format's, do not fill them.
    """
    if k % GROUP or (size != -1 and k % size):
        raise refused(
            title,
            f"{shorten(name)} of {k} columns in groups of {size if size != -1 else GROUP}",
            "groups that fill the columns",
        )
    return 1 if size == -1 else k // size


def read_order(reader: SafetensorsReader, name: str, k: int, groups: int) -> Order | None:
    """The group of each of ``k`` columns, as a tensor has it; None where they follow each other.

    Raises CheckpointError for a group that is not there.
    """
    check_tensor(reader, name, ("I32", "I64"), (k,))
    size = np.dtype("<i4" if reader.dtype(name) == "I32" else "<i8")
    found: Order = reader.part(name, 0, k * size.itemsize).view(size).astype(np.intp)
    if (found < 0).any() or (found >= groups).any():
        wrong = int(found[(found < 0) | (found >= groups)][0])
        raise CheckpointError(
            f"{shorten(name)} has a column of group {wrong}; there are {groups}.",
            remedy="Download the checkpoint again.",
            code="checkpoint.weights",
        )
    return None if np.array_equal(found, np.arange(k) // (k // groups)) else found


def check_tensor(
    reader: SafetensorsReader, name: str, dtypes: tuple[str, ...], shape: tuple[int, ...]
) -> None:
    """Raise CheckpointError unless a tensor is there with one of the dtypes and the shape."""
    found = reader.dtype(name), reader.shape(name)
    if found[0] not in dtypes or found[1] != shape:
        raise CheckpointError(
            f"{shorten(name)} is {found[0]} {list(found[1])}; as its matrix is quantized it should "
            f"be {' or '.join(dtypes)} {list(shape)}.",
            remedy="Use weights and config.json of the same checkpoint.",
            code="checkpoint.shape",
        )
