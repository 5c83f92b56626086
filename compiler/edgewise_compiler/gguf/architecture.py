"""What a GGUF file's metadata and tensor names mean: config.json and a checkpoint's own names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from edgewise_compiler.gguf.blocks import Floats
from edgewise_compiler.gguf.codes import HELD, Unpack
from edgewise_compiler.gguf.known import check_options, find_architecture
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.quantize.codes import CodedRows, Holders
from edgewise_compiler.weights.files import Bytes, check_rows, damaged
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

ROPE_DIVISORS = "rope_freqs.weight"

_MOST = 1 << 31
_HUGE = 1e30

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

_NAME = re.compile(r"(?:blk\.(0|[1-9]\d{0,3})\.)?([a-z_]+)\.(weight|bias)")


def read_config(reader: GgufReader) -> dict[str, Any]:
    """What config.json would say; the family checks it as it checks any other.

    Raises:
        CheckpointError: a key that is missing or of the wrong type.
        UnsupportedError: an architecture or an option that is not implemented.
    """
    name, architecture = find_architecture(reader)
    fields = ConfigFields(reader.metadata, reader.path.name)
    check_options(reader, name)

    def integer(key: str, **default: int) -> int:
        return fields.integer(f"{name}.{key}", 0, _MOST, **default)

    heads = integer("attention.head_count")
    hidden = integer("embedding_length")
    head_dim = integer("attention.key_length", default=hidden // max(1, heads))
    context = integer("context_length")
    config: dict[str, Any] = {
        "architectures": [architecture.model],
        "hidden_size": hidden,
        "num_hidden_layers": integer("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": integer("attention.head_count_kv", default=heads),
        "head_dim": head_dim,
        "intermediate_size": integer("feed_forward_length"),
        "vocab_size": reader.shape("token_embd.weight")[0],
        "max_position_embeddings": context,
        "rms_norm_eps": fields.number(f"{name}.attention.layer_norm_rms_epsilon", 0.0, 1.0),
        "tie_word_embeddings": "output.weight" not in reader.names(),
        "attention_bias": "blk.0.attn_q.bias" in reader.names(),
        "mlp_bias": "blk.0.ffn_up.bias" in reader.names(),
        "num_experts": integer("expert_count", default=0),
        "partial_rotary_factor": integer("rope.dimension_count", default=head_dim)
        / max(1, head_dim),
        "rope_theta": fields.number(f"{name}.rope.freq_base", 0.0, _HUGE, 10000.0),
        "rope_scaling": _rope_scaling(reader, fields, name, context, head_dim),
        # No token ends a text unless the tokenizer says so.
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if window := integer("attention.sliding_window", default=0):
        config["sliding_window"] = window
    return config


def _rope_scaling(
    reader: GgufReader, fields: ConfigFields, name: str, context: int, head_dim: int
) -> dict[str, Any] | None:
    scaling = f"{name}.rope.scaling"
    kind = fields.text(f"{scaling}.type", "none")
    if kind == "none" and ROPE_DIVISORS in reader.names():
        shape = reader.shape(ROPE_DIVISORS)
        if shape != (head_dim // 2,):
            raise damaged(reader.path, f"{ROPE_DIVISORS} has shape {shorten(list(shape))}")
        divisors = reader.read(ROPE_DIVISORS).tolist()
        # What "longrope" means where one list serves texts of any length.
        lists = {"short_factor": divisors, "long_factor": divisors}
        return {"rope_type": "longrope", "attention_factor": 1.0, **lists}
    if kind == "none":
        return None
    original = fields.integer(f"{scaling}.original_context_length", 0, _MOST, context)
    values: dict[str, Any] = {
        "rope_type": kind,
        "factor": fields.number(f"{scaling}.factor", 0.0, _HUGE, 1.0),
        "original_max_position_embeddings": original,
    }
    for key in ("beta_fast", "beta_slow"):
        if fields.has(f"{scaling}.yarn_{key}"):
            values[key] = fields.number(f"{scaling}.yarn_{key}", 0.0, _HUGE)
    return values


_Rows = TypeVar("_Rows", Floats, CodedRows)


@dataclass(frozen=True)
class _Source:
    """A tensor of the file; ``head_dim`` where the rows of each head have another order there."""

    name: str
    head_dim: int | None


class CheckpointTensors:
    """A GGUF file under the names, and with the order of rows, of a Hugging Face checkpoint.

    Implements :class:`~..weights.base.WeightReader`; closing it closes the file.
    """

    def __init__(self, reader: GgufReader, config: Mapping[str, Any]) -> None:
        _, architecture = find_architecture(reader)
        rotated = config["head_dim"] if architecture.pairs else None
        self._reader = reader
        # The divisors are in the configuration; with another kind of scaling they are one too many.
        divided = (config["rope_scaling"] or {}).get("rope_type") == "longrope"
        names = [name for name in reader.names() if not (divided and name == ROPE_DIVISORS)]
        self._sources = {
            _checkpoint_name(name): _Source(name, rotated if _is_rotated(name) else None)
            for name in names
        }
        if len(self._sources) != len(names):
            raise damaged(reader.path, "two of its tensors are the same one of a checkpoint")

    def names(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._reader.shape(self._find(name).name)

    def dtype(self, name: str) -> str:
        return self._reader.dtype(self._find(name).name)

    def size(self, name: str) -> int:
        return self._reader.size(self._find(name).name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        stop = check_rows(name, start, stop, self.shape(name)[0])
        return self._ordered(self._reader.read, name, start, stop)

    def stored(self, name: str) -> Iterator[Bytes]:
        return self._reader.stored(self._find(name).name)

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

    def _codes(self, name: str, unpack: Unpack, start: int, stop: int) -> CodedRows:
        return self._ordered(partial(self._reader.codes, unpack), name, start, stop)

    def _ordered(
        self, read: Callable[[str, int, int], _Rows], name: str, start: int, stop: int
    ) -> _Rows:
        """Rows of a tensor, in a checkpoint's order, of what reads them in the file's."""
        source = self._find(name)
        rows, dim = self._reader.shape(source.name)[0], source.head_dim
        # Rows that make no whole heads are refused with the shape, before anything uses them.
        if not dim or dim % 2 or rows % dim or start == stop:
            return read(source.name, start, stop)
        wanted = np.arange(start, stop)
        head, half, pair = wanted // dim, wanted % dim // (dim // 2), wanted % (dim // 2)
        theirs = head * dim + 2 * pair + half
        # Whole heads: at most two of them more than was asked for.
        first, last = int(head[0]) * dim, (int(head[-1]) + 1) * dim
        found: _Rows = read(source.name, first, last)[theirs - first]
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


def _is_rotated(name: str) -> bool:
    return name.rpartition(".")[0].endswith((".attn_q", ".attn_k"))


def _checkpoint_name(name: str) -> str:
    """The name that transformers gives a tensor; a name nothing is known of stays as it is."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return name
    layer, module, kind = parts.groups()
    table, prefix = (_TOP, "") if layer is None else (_LAYER, f"model.layers.{int(layer)}.")
    return f"{prefix}{table[module]}.{kind}" if module in table else name
