"""A GGUF file's tensors as a checkpoint has them: their names, the order of rows, what is added."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Self, TypeVar

import numpy as np

from edgewise_compiler.gguf.architecture import LONG, ROPE_DIVISORS, SHORT
from edgewise_compiler.gguf.blocks import Floats
from edgewise_compiler.gguf.codes import HELD, Unpack
from edgewise_compiler.gguf.known import Architecture, find_architecture
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.experts import MAX_EXPERTS
from edgewise_compiler.quantize.codes import CodedRows, Holders
from edgewise_compiler.weights.files import Bytes, check_rows, damaged
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ROTATED = ("attn_q", "attn_k")
_FUSED = "attn_qkv"
"""Queries, keys and values below each other, which a converter may write of any architecture."""

_DIMENSIONS = {"weight": 3, "bias": 2}
_EXPERTS = {
    "ffn_gate_exps": "gate_proj",
    "ffn_up_exps": "up_proj",
    "ffn_down_exps": "down_proj",
}
"""The matrices, and biases, of all experts of a layer, one after the other; and how many dimensions
they have."""

_SINKS, _SHARED_GATE = "attn_sinks", "ffn_gate_inp_shexp"
"""One is a vector, with a suffix in some files; the other a matrix of one row, a vector in some."""

_NAME = re.compile(rf"(?:blk\.(0|[1-9]\d{{0,3}})\.)?(?:([a-z_]+)\.(weight|bias)|({_SINKS}))")

_Rows = TypeVar("_Rows", Floats, CodedRows)


@dataclass(frozen=True)
class _Source:
    """Rows of a tensor of the file.

    Attributes:
        name: of the tensor.
        head_dim: where the rows of each head have another order there.
        less: taken off every element.
        first, rows: of its rows, from which on and how many; None for all.
        stacked: it holds several matrices, whose rows are counted through.
        vector: it is the first of its rows, without their dimension.
        matrix: it has one row, whether the file says so or not.
    """

    name: str
    head_dim: int | None = None
    less: float = 0.0
    first: int = 0
    rows: int | None = None
    stacked: bool = False
    vector: bool = False
    matrix: bool = False


class CheckpointTensors:
    """A GGUF file under the names, and with the order of rows, of a Hugging Face checkpoint.

    Implements :class:`~..weights.base.WeightReader`; closing it closes the file.
    """

    def __init__(
        self, reader: GgufReader, config: Mapping[str, Any], others: Collection[str] = ()
    ) -> None:
        """Look the names up; ``others`` are tensors that are none of the checkpoint's."""
        _, architecture = find_architecture(reader)
        self._reader = reader
        # The divisors are in the configuration; with another kind of scaling they are too many.
        longrope = (config["rope_scaling"] or {}).get("rope_type") == "longrope"
        used = {LONG, SHORT} if LONG in reader.names() else {ROPE_DIVISORS}
        left_out = {*others, *(used if longrope else ())}
        names = [name for name in reader.names() if name not in left_out]
        found: list[tuple[str, _Source]] = []
        for name in names:
            found += _sources(name, reader.shape(name), architecture, config)
        self._sources = dict(found)
        if len(self._sources) != len(found):
            raise damaged(reader.path, "two of its tensors are the same one of a checkpoint")

    def names(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        source = self._find(name)
        rows, *others = self._reader.shape(source.name)
        if source.matrix and not others:
            return 1, rows
        if source.vector:
            return tuple(others)
        if source.stacked:
            rows, *others = rows * others[0], others[1]
        # Fewer than there should be are refused with the shape; so is what follows the last ones.
        left = max(0, rows - source.first)
        return (left if source.rows is None else min(left, source.rows), *others)

    def dtype(self, name: str) -> str:
        return self._reader.dtype(self._find(name).name)

    def size(self, name: str) -> int:
        source = self._find(name)
        if source.matrix:
            return self._reader.size(source.name)
        return self._row_bytes(source) * (1 if source.vector else self.shape(name)[0])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        stop = check_rows(name, start, stop, self.shape(name)[0])
        source = self._find(name)
        if source.matrix:
            return self._reader.read(source.name).reshape(self.shape(name))[start:stop]
        if source.vector:
            return self._reader.read(source.name, source.first, source.first + 1)[0, start:stop]
        rows = self._reader.rows if source.stacked else self._reader.read
        values = self._ordered(rows, name, start, stop)
        return values - np.float32(source.less) if source.less else values

    def stored(self, name: str) -> Iterator[Bytes]:
        source = self._find(name)
        if source.stacked or source.vector:  # All of it would be read for each of its parts.
            first = source.first * self._row_bytes(source)
            yield self._reader.part(source.name, first, self.size(name))
        else:
            yield from self._reader.stored(source.name)
        if source.first or source.rows is not None:
            yield np.frombuffer(f"{source.first} {source.rows}".encode(), np.uint8)

    def held(self) -> dict[str, Holders]:
        """The schemes that hold each quantized matrix, by name."""
        found: dict[str, Holders] = {}
        for name in self.names():
            if len(self.shape(name)) == 2 and (unpackers := HELD.get(self.dtype(name))):
                found[name] = {
                    scheme: None if unpack is None else partial(self._codes, name, unpack)
                    for scheme, unpack in unpackers.items()
                }
        return found

    def _row_bytes(self, source: _Source) -> int:
        shape = self._reader.shape(source.name)
        height = prod(shape[:-1]) if source.stacked else shape[0]
        return self._reader.size(source.name) // max(1, height)

    def _codes(self, name: str, unpack: Unpack, start: int, stop: int) -> CodedRows:
        return self._ordered(partial(self._reader.codes, unpack), name, start, stop)

    def _ordered(
        self, read: Callable[[str, int, int], _Rows], name: str, start: int, stop: int
    ) -> _Rows:
        """Rows of a tensor, in a checkpoint's order, of what reads them in the file's."""
        source, rows = self._find(name), self.shape(name)[0]
        dim, before = source.head_dim, source.first
        # Rows that make no whole heads are refused with the shape, before anything uses them.
        if not dim or dim % 2 or rows % dim or start == stop:
            return read(source.name, before + start, before + stop)
        wanted = np.arange(start, stop)
        head, half, pair = wanted // dim, wanted % dim // (dim // 2), wanted % (dim // 2)
        theirs = head * dim + 2 * pair + half
        # Whole heads: at most two of them more than was asked for.
        first, last = int(head[0]) * dim, (int(head[-1]) + 1) * dim
        found: _Rows = read(source.name, before + first, before + last)[theirs - first]
        return found

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _find(self, name: str) -> _Source:
        if name not in self._sources:
            raise CheckpointError(
                f"{self._reader.path.name} has no tensor for {shorten(name)}.",
                remedy="Download the whole model, or convert it again.",
                code="checkpoint.weights",
            )
        return self._sources[name]


def _sources(
    name: str, shape: tuple[int, ...], architecture: Architecture, config: Mapping[str, Any]
) -> Iterator[tuple[str, _Source]]:
    """What a tensor is called in a checkpoint; a name nothing is known of stays as it is."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        yield name, _Source(name)
        return
    layer, module, kind, bare = parts.groups()
    if _SINKS in (module, bare):
        yield name if layer is None else f"model.layers.{int(layer)}.self_attn.sinks", _Source(name)
        return
    table, prefix = _TOP, ""
    if layer is not None:
        table = {**_LAYER, **architecture.norms, **architecture.others}
        prefix = f"model.layers.{int(layer)}."
    head_dim = config["head_dim"] if architecture.pairs else None
    if layer is not None and module == _FUSED and module not in table:
        first, dim = 0, config["head_dim"]
        counts = (config["num_attention_heads"], *[config["num_key_value_heads"]] * 2)
        for part, heads in zip(("attn_q", "attn_k", "attn_v"), counts, strict=True):
            # The last part takes all that is left: more than it has rows is refused there.
            rows = None if part == "attn_v" else heads * dim
            order = head_dim if part in _ROTATED else None
            ours = f"{prefix}{table[part]}.{kind}"
            yield ours, _Source(name, order, first=first, rows=rows)
            first += heads * dim
        return
    if layer is not None and module in _EXPERTS and len(shape) == _DIMENSIONS[kind]:
        count, rows, *_ = shape
        # More of them than there should be are refused as tensors that nothing uses.
        for expert in range(min(count, config["num_experts"] + 1, MAX_EXPERTS + 1)):
            ours = f"{prefix}mlp.experts.{expert}.{_EXPERTS[module]}.{kind}"
            if kind == "bias":
                yield ours, _Source(name, first=expert, rows=1, vector=True)
            else:
                yield ours, _Source(name, first=expert * rows, rows=rows, stacked=True)
        return
    less = 1.0 if architecture.more and module.endswith("norm") and kind == "weight" else 0.0
    ours = f"{prefix}{table[module]}.{kind}" if module in table else name
    matrix = module == _SHARED_GATE and kind == "weight" and shape[:-1] in ((), (1,))
    yield ours, _Source(name, head_dim if module in _ROTATED else None, less, matrix=matrix)
