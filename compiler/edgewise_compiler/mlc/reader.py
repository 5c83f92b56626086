"""The tensors of an MLC folder under the names, and in the pieces, of a Hugging Face checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgewise_compiler.mlc.cache import read_cache
from edgewise_compiler.mlc.config import Kind
from edgewise_compiler.packed.base import Codes, Integers, Matrix
from edgewise_compiler.packed.held import holders
from edgewise_compiler.packed.words import along_rows, in_order
from edgewise_compiler.quantize.codes import Floats, Holders
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.weights.files import (
    Bytes,
    check_finite,
    check_rows,
    damaged,
    read_exactly,
)
from edgewise_compiler.weights.open_files import BLOCK, TensorFiles
from edgewise_compiler.weights.safetensors import FLOATS
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten

BITS = 4
MIDDLE = 7
"""The code of zero; 15 is not made by MLC's quantizer, and means 8 all the same."""

WORDS = GROUP * BITS // 32
"""Words of a group."""

_LAYER = re.compile(r"(model\.layers\.\d{1,4}\.)([a-z_.]+)")

_AGAIN = "Download the whole folder, or convert the model again."


@dataclass(frozen=True)
class _Part:
    """Rows of a tensor, or of the two that a matrix of four bits is stored in.

    Attributes:
        lead: dimensions before the columns, where rows of several matrices are counted through.
    """

    tensors: tuple[str, ...]
    first: int
    rows: int
    lead: int = 1


@dataclass(frozen=True)
class _Place:
    """What a module of a layer stands for.

    Attributes:
        parts: modules of a checkpoint that it holds below each other, and how many rows each has;
            ``{expert}`` counts. Empty for one that has its own name there.
        columns: of it; 0 for as many as a state has.
        experts: how many times it holds them; 0 where it has no dimension for that.
    """

    parts: Mapping[str, int] = field(default_factory=dict)
    columns: int = 0
    experts: int = 0


def _places(config: Mapping[str, Any], qkv: str) -> dict[str, _Place]:
    """The modules of a layer that are not what they are called, or have other columns."""
    dim, heads = config["head_dim"], config["num_attention_heads"]
    q, kv = heads * dim, config["num_key_value_heads"] * dim
    attention = {f"self_attn.{part}_proj": n for part, n in (("q", q), ("k", kv), ("v", kv))}
    places = {f"self_attn.{qkv}": _Place(attention), "self_attn.o_proj": _Place(columns=q)}

    def mlp(module: str, width: int) -> None:
        both = {f"{module}.{part}_proj": width for part in ("gate", "up")}
        places[f"{module}.gate_up_proj"] = _Place(both)
        places[f"{module}.down_proj"] = _Place(columns=width)

    mlp("mlp", config["intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        mlp("mlp.shared_expert", config["shared_expert_intermediate_size"])
    if experts := config.get("num_experts", 0):
        each, width = "mlp.experts.{expert}", config["moe_intermediate_size"]
        both = {f"{each}.{part}_proj": width for part in ("gate", "up")}
        down = {f"{each}.down_proj": config["hidden_size"]}
        places["mlp.moe_gate_up_proj"] = _Place(both, experts=experts)
        places["mlp.moe_down_proj"] = _Place(down, width, experts)
    return places


def _row_bytes(entry: TensorEntry, part: _Part) -> int:
    return entry.bytes // max(1, prod(entry.shape[: part.lead]))


class MlcReader(TensorFiles):
    """The tensors of a folder; implements :class:`~..weights.base.WeightReader`.

    Shards are opened as they are read: large models have more of them than a process may have open.

    Raises:
        CheckpointError: shards that are missing or damaged, or do not fit together.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder.name, _AGAIN)
        self._path = folder
        self._stored: dict[str, TensorEntry] = read_cache(folder)
        self._parts: dict[str, _Part] = {}
        self._matrices: dict[str, Matrix] = {}
        self._hidden = 0

    def stored_names(self) -> tuple[str, ...]:
        """Names in the folder."""
        return tuple(self._stored)

    def named(self, config: Mapping[str, Any], kind: Kind) -> None:
        """Give the tensors a checkpoint's names.

        Args:
            config: config.json as `mlc.config` makes it.
        """
        places = _places(config, kind.qkv)
        self._hidden = config["hidden_size"]
        for name, entry in self._stored.items():
            module, _, end = name.rpartition(".")
            if end == "q_scale":
                continue
            tensors = (name, f"{module}.q_scale") if end == "q_weight" else (name,)
            ours = "weight" if end == "q_weight" else end
            inside = _LAYER.fullmatch(module)
            place = places.get(inside[2], _Place()) if inside else _Place()
            lead = entry.shape[: 2 if place.experts else 1]
            height = lead[-1]
            if inside is None or not place.parts:
                self._add(f"{module}.{ours}", _Part(tensors, 0, height), place, lead)
                continue
            rows = sum(place.parts.values())
            wanted = (place.experts, rows) if place.experts else (rows,)
            if lead != wanted:
                found, meant = (" times ".join(map(str, shape)) for shape in (lead, wanted))
                raise damaged(self._path, f"{shorten(name)} has {found} rows, not {meant}")
            for expert in range(place.experts or 1):
                first = expert * height
                for piece, rows in place.parts.items():
                    whole = f"{inside[1]}{piece.format(expert=expert)}.{ours}"
                    self._add(whole, _Part(tensors, first, rows, len(lead)), place, lead)
                    first += rows
        scales = {name for part in self._parts.values() for name in part.tensors[1:]}
        for name in self._stored:
            if name.endswith(".q_scale") and name not in scales:
                raise damaged(self._path, f"{shorten(name)} has no q_weight beside it")

    def _add(self, name: str, part: _Part, place: _Place, lead: tuple[int, ...]) -> None:
        """A tensor, of one that has ``lead`` before its columns."""
        if name in self._parts:
            raise damaged(self._path, f"{shorten(name)} is there twice")
        self._parts[name] = part
        if len(part.tensors) == 2:
            self._matrices[name] = self._matrix(part, place.columns or self._hidden, lead)

    def _matrix(self, part: _Part, k: int, lead: tuple[int, ...]) -> Matrix:
        """A matrix of four bits; refused where its tensors are not as wide as the model says."""
        words, scales = (self._entry(name) for name in part.tensors)
        groups = -(-k // GROUP)
        wanted = (("U32",), (*lead, groups * WORDS)), (tuple(FLOATS), (*lead, groups))
        for name, entry, (dtypes, shape) in zip(part.tensors, (words, scales), wanted, strict=True):
            if entry.dtype not in dtypes or entry.shape != shape:
                found = f"{shorten(name)} is {entry.dtype} {list(entry.shape)}"
                raise damaged(self._path, f"{found} for {k} columns")
        kind = f"MLC of {BITS} bits, scales {scales.dtype}"
        return Matrix(
            (part.rows, k), BITS, kind, part.tensors, lambda: True, partial(self._rows, part, k)
        )

    def _rows(self, part: _Part, k: int, start: int, stop: int) -> Integers:
        """Rows whose zero is in the middle, columns padded to whole groups.

        A code counts from -7 to 8. Ours count from -8 to 7: where there is an 8, the other way
        round, with the scale's sign turned.
        """
        weight, scale = part.tensors
        words = self._raw(part, weight, start, stop).view("<u4")
        codes = along_rows(words.reshape(stop - start, -1), BITS, in_order(BITS))
        stored = self._raw(part, scale, start, stop)
        scales = FLOATS[self._entry(scale).dtype](stored).reshape(stop - start, -1)
        scales = scales.astype(np.float32)
        zero = np.uint8(ZERO_POINT["q4"])
        codes[:, k:] = MIDDLE
        groups = codes.reshape(*scales.shape, GROUP)
        turned = (groups == (1 << BITS) - 1).any(axis=2)
        ours: Codes = groups + (zero - np.uint8(MIDDLE))
        ours[turned] = zero + np.uint8(MIDDLE) - groups[turned]
        scales[turned] *= -1
        return Integers(ours.reshape(codes.shape), np.full(scales.shape, zero, np.int16), scales)

    def _raw(self, part: _Part, name: str, start: int, stop: int) -> Bytes:
        """Rows of a part, as one of its tensors has them."""
        entry = self._entry(name)
        size = _row_bytes(entry, part)
        return self._bytes(entry, (part.first + start) * size, (stop - start) * size)

    def names(self) -> tuple[str, ...]:
        return tuple(self._parts)

    def shape(self, name: str) -> tuple[int, ...]:
        part = self._part(name)
        if name in self._matrices:
            return self._matrices[name].shape
        return part.rows, *self._entry(part.tensors[0]).shape[part.lead :]

    def dtype(self, name: str) -> str:
        if name in self._matrices:
            return self._matrices[name].kind
        return self._entry(self._part(name).tensors[0]).dtype

    def size(self, name: str) -> int:
        part = self._part(name)
        entries = map(self._entry, part.tensors)
        return sum(part.rows * _row_bytes(entry, part) for entry in entries)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        part = self._part(name)
        stop = check_rows(name, start, stop, part.rows)
        if start == stop:
            return np.empty((0, *self.shape(name)[1:]), np.float32)
        if name in self._matrices:
            k = self._matrices[name].shape[1]
            values = self._matrices[name].rows(start, stop).floats()[:, :k]
        else:
            entry = self._entry(part.tensors[0])
            if entry.dtype not in FLOATS:
                raise UnsupportedError(
                    f"{shorten(part.tensors[0])} in {entry.file} is stored as {entry.dtype}.",
                    remedy=f"Use a folder whose floats are {', '.join(FLOATS)}.",
                    code="unsupported.dtype",
                )
            raw = self._raw(part, part.tensors[0], start, stop)
            values = FLOATS[entry.dtype](raw).reshape(stop - start, *self.shape(name)[1:])
        check_finite(name, values, start)
        return values

    def stored(self, name: str) -> Iterator[Bytes]:
        part = self._part(name)
        for tensor in part.tensors:
            entry = self._entry(tensor)
            step = max(1, BLOCK // max(1, _row_bytes(entry, part)))
            for start in range(0, part.rows, step):
                yield self._raw(part, tensor, start, min(start + step, part.rows))

    def held(self) -> Mapping[str, Holders]:
        """The schemes that hold each matrix of four bits, by name."""
        return {name: holders(name, matrix) for name, matrix in self._matrices.items()}

    def _part(self, name: str) -> _Part:
        if name not in self._parts:
            raise CheckpointError(
                f"{self._path.name} has no tensor for {shorten(name)}.",
                remedy=_AGAIN,
                code="checkpoint.weights",
            )
        return self._parts[name]

    def _entry(self, name: str) -> TensorEntry:
        if name not in self._stored:
            raise damaged(self._path, f"there is no {shorten(name)}")
        return self._stored[name]

    def _bytes(self, entry: TensorEntry, start: int, count: int) -> Bytes:
        path = self._path / entry.file
        with storage_errors("read", path), path.open("rb", buffering=0) as file:
            file.seek(entry.offset + start)
            return read_exactly(file, count, path)
