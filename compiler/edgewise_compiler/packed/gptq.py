"""GPTQ's folders, of AutoGPTQ and GPTQModel: codes along the inputs, a zero for each group.

Of a module ``qweight`` is int32 ``[k * bits / 32, n]``, ``qzeros`` int32
``[k / group, n * bits / 32]``, ``scales`` ``[k / group, n]`` and ``g_idx`` int32 ``[k]``, the group
of each input; a weight is ``(code - zero) * scale``. Version 1 of the format stores zeros less one,
word by word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

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
from edgewise_compiler.packed.words import WORD, Words, along_rows, in_order, turned
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.format.reading import shorten

TITLE = "GPTQ"
BITS = (4, 8)

FORMATS = {"gptq": 1, "gptq_v2": 0}
"""Values of ``checkpoint_format``, and what each adds to stored zeros."""

_MOST = 1 << 20


def _open(fields: ConfigFields) -> Callable[[SafetensorsReader], Matrices]:
    layout = fields.text("checkpoint_format", fields.text("format", "gptq"))
    bits = fields.integer("bits", -_MOST, _MOST)
    size = fields.integer("group_size", -_MOST, _MOST, 128)
    if layout not in FORMATS:
        raise refused(TITLE, said("checkpoint_format", layout), f"one of {', '.join(FORMATS)}")
    if bits not in BITS:
        raise refused(TITLE, said("bits", bits), f"bits {' or '.join(map(str, BITS))}")
    if fields.text("pack_dtype", "int32") != "int32":
        raise refused(TITLE, said("pack_dtype", fields.values["pack_dtype"]), "pack_dtype int32")
    check_group(TITLE, size)
    return partial(_matrices, bits=bits, size=size, layout=layout)


def _matrices(reader: SafetensorsReader, bits: int, size: int, layout: str) -> Matrices:
    kept = Kept()
    return {
        f"{module}.weight": _matrix(reader, kept, module, bits, size, layout)
        for module in modules_of(reader)
    }


def _matrix(
    reader: SafetensorsReader, kept: Kept, module: str, bits: int, size: int, layout: str
) -> Matrix:
    qweight, qzeros, scales, index = (
        f"{module}.{end}" for end in ("qweight", "qzeros", "scales", "g_idx")
    )
    each = WORD // bits
    words, n = (*reader.shape(qweight), 0, 0)[:2]
    k = words * each
    groups = groups_of(TITLE, qweight, k, size)
    check_tensor(reader, qweight, ("I32", "U32"), (words, n))
    check_tensor(reader, qzeros, ("I32", "U32"), (groups, -(-n // each)))
    check_tensor(reader, scales, SCALES, (groups, n))
    parts = [qweight, qzeros, scales]
    if index in reader.names():
        check_tensor(reader, index, ("I32", "I64"), (k,))
        _check_order(reader, index, k, groups)
        parts.append(index)
    # What version 1 took off a word it took off the word as a whole, borrows and all.
    less = FORMATS[layout] * sum(1 << place * bits for place in range(each))
    zeros = partial(read_zeros, reader, qzeros, bits, in_order(bits), n, less)

    def load() -> Turned:
        return Turned(turned(reader, qweight, "<u4"), zeros(), read_scales(reader, scales))

    return matrix(
        module=module,
        shape=(n, k),
        bits=bits,
        kind=f"{TITLE} of {bits} bits ({layout}) in groups of {k // groups}",
        parts=tuple(parts),
        kept=kept,
        load=load,
        zeros=zeros,
        unpack=partial(_unpack, bits=bits),
    )


def _check_order(reader: SafetensorsReader, name: str, k: int, groups: int) -> None:
    """Refuse inputs whose groups do not follow each other (``desc_act``)."""
    size = np.dtype("<i4" if reader.dtype(name) == "I32" else "<i8")
    found = reader.part(name, 0, k * size.itemsize).view(size)
    expected = np.arange(k) // (k // groups)
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        column = int(wrong[0])
        raise refused(
            TITLE,
            f"inputs in the order of their activations (desc_act): in {shorten(name)} column "
            f"{column} is of group {int(found[column])}",
            "desc_act false",
        )


def _unpack(words: Words, start: int, stop: int, bits: int) -> Codes:
    """Rows of words ``[n, k * bits / 32]``."""
    return along_rows(words[start:stop], bits, in_order(bits))


GPTQ = Method(
    name="gptq",
    title=TITLE,
    reads=(
        ("4 bits whose zeros are all 8 (`sym`)", ("q4", "q4a", "q5", "q6", "q8")),
        ("4 bits with other zeros", ("q4a", "q5", "q6", "q8")),
        ("8 bits whose zeros are all 128 (`sym`)", ("q8",)),
    ),
    refuses=(
        "other `bits`",
        f"`checkpoint_format` other than {' and '.join(FORMATS)}",
        "inputs that were put in another order (`desc_act`, seen from `g_idx`)",
    ),
    open=_open,
)
