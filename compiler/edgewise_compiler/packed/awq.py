"""AWQ's ``gemm`` folders: codes along the outputs in an order of their own, a zero for each group.

Format: AutoAWQ's WQLinear_GEMM. Of a module ``qweight`` is int32 ``[k, n / 8]``, ``qzeros`` int32
``[k / group, n / 8]`` and ``scales`` ``[k / group, n]``; a weight is ``(code - zero) * scale``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import said
from edgewise_compiler.packed.base import (
    Codes,
    Matrices,
    Matrix,
    Method,
    check_group,
    check_tensor,
    groups_of,
    refused,
)
from edgewise_compiler.packed.columns import (
    SCALES,
    Kept,
    Turned,
    matrix,
    modules_of,
    read_scales,
    read_zeros,
)
from edgewise_compiler.packed.words import WORD, Words, along_columns, turned
from edgewise_compiler.weights.safetensors import SafetensorsReader

TITLE = "AWQ"
BITS = 4
EACH = WORD // BITS
"""Codes of a word."""

PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the codes of outputs 0 to 7 lie in a word: from the lowest bits up it has those of outputs
0, 2, 4, 6, 1, 3, 5 and 7."""

_MOST = 1 << 20


def _open(fields: ConfigFields) -> Callable[[SafetensorsReader], Matrices]:
    version = fields.text("version", "gemm").lower()
    bits = fields.integer("bits", -_MOST, _MOST, 4)
    size = fields.integer("group_size", -_MOST, _MOST, 128)
    if version != "gemm":
        raise refused(TITLE, said("version", version), "version gemm")
    if bits != BITS:
        raise refused(TITLE, said("bits", bits), f"bits {BITS}")
    if not fields.flag("zero_point", True):
        raise refused(TITLE, "zero_point false", "zero_point true")
    check_group(TITLE, size)
    return partial(_matrices, size=size)


def _matrices(reader: SafetensorsReader, size: int) -> Matrices:
    kept = Kept()
    return {
        f"{module}.weight": _matrix(reader, kept, module, size) for module in modules_of(reader)
    }


def _matrix(reader: SafetensorsReader, kept: Kept, module: str, size: int) -> Matrix:
    parts = tuple(f"{module}.{end}" for end in ("qweight", "qzeros", "scales"))
    qweight, qzeros, scales = parts
    k, words = (*reader.shape(qweight), 0, 0)[:2]
    n = words * EACH
    groups = groups_of(TITLE, qweight, k, size)
    check_tensor(reader, qweight, ("I32", "U32"), (k, words))
    check_tensor(reader, qzeros, ("I32", "U32"), (groups, words))
    check_tensor(reader, scales, SCALES, (groups, n))
    zeros = partial(read_zeros, reader, qzeros, BITS, PLACES, n)

    def load() -> Turned:
        return Turned(turned(reader, qweight, "<u4"), zeros(), read_scales(reader, scales))

    return matrix(
        module=module,
        shape=(n, k),
        bits=BITS,
        kind=f"AWQ in groups of {k // groups}",
        parts=parts,
        kept=kept,
        load=load,
        zeros=zeros,
        unpack=_unpack,
    )


def _unpack(words: Words, start: int, stop: int) -> Codes:
    """Rows of words ``[n / 8, k]``."""
    first = start // EACH
    codes = along_columns(words[first : -(-stop // EACH)], BITS, PLACES)
    return codes[start - first * EACH : stop - first * EACH]


AWQ = Method(
    name="awq",
    title=TITLE,
    reads=(
        ("4 bits, `version` gemm", ("q4a", "q5", "q6", "q8")),
        ("the same where every zero is 8", ("q4", "q4a", "q5", "q6", "q8")),
    ),
    refuses=("other `bits`", "`version` gemv and others", "`zero_point` false"),
    open=_open,
)
