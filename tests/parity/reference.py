"""The families once more, in plain NumPy float64: the reference for quantized programs.

Nothing here is shared with the compiler but :class:`ModelConfig` and the rope table (float32 by
contract). Weights go by their names in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - teaches NumPy the bfloat16 that safe_open asks it for
import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from edgewise_compiler.models.base import Mixture, ModelConfig
from edgewise_compiler.models.rotation import rope_table

Weights = Mapping[str, NDArray[np.float32]]
Doubles = NDArray[np.float64]

GROUP = 32
_INPUT, _ATTENTION = "input_layernorm", "post_attention_layernorm"
_MLP = "pre_feedforward_layernorm", "post_feedforward_layernorm"
NORMS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "before": ((_INPUT, _ATTENTION), ()),
    "after": ((), (_ATTENTION, _MLP[1])),
    "around": ((_INPUT, _MLP[0]), (_ATTENTION, _MLP[1])),
}
"""The norms before and after attention and MLP, by `ModelConfig.norms`."""
ENDS = ("*embed_tokens.weight", "lm_head.weight")
MIXED: Mapping[str, tuple[str, Mapping[str, tuple[str | int, ...]]]] = {
    "fours": (
        "q4a",
        {
            **dict.fromkeys(ENDS, ("iq4_nl",)),
            "*.o_proj.weight": ("q4", 64, "q4a"),
            "*.mlp.*": ("mxfp4",),
        },
    ),
    "fives": (
        "q5_nl",
        {
            **dict.fromkeys(ENDS, ("q6_nl", 128, "q5_nl")),
            "*.o_proj.weight": ("q4_nl",),
            "*.[qkv]_proj.weight": ("q6",),
            "*.down_proj.weight": ("q5",),
        },
    ),
}
"""Recipes of this folder by their names: the scheme of most matrices, and by globs over names of
those that have another, that of all rows or of the first so many and of the others."""
ROUTERS = (".mlp.gate.weight", ".shared_expert_gate.weight")
"""Matrices that stay float32."""


def _turns(*values: int) -> tuple[int, ...]:
    """Every second one, then the others: those of even numbers, as `numpy.rint` would have it."""
    return values[::2] + values[1::2]


TABLES = {
    "iq4_nl": (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
    "q4_nl": _turns(*range(-12, -4, 2), *range(-4, 5), *range(6, 11, 2)),
    "q5_nl": _turns(*range(-24, -8, 2), *range(-8, 9), *range(10, 23, 2)),
    "q6_nl": _turns(*range(-48, -16, 2), *range(-16, 17), *range(18, 47, 2)),
    "mxfp4": (-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12),
}
"""What weights in these schemes are, times their group's scale: the lowest first, and of any two
first the one that gets what lies halfway between them."""
INTEGERS = ("q8", "q6", "q5", "q4", "q4a", "iq4_nl", *MIXED)
"""What models are compared in. Not mxfp4 for all: a table of tokens in it has halves of a group's
largest number, which are ties when they are rounded to int8, and fall to either side."""


def load_weights(folder: Path) -> dict[str, NDArray[np.float32]]:
    """Every tensor of a checkpoint as float32, read with the `safetensors` package.

    Where programs pad heads, the attention's output has the columns that it has there: groups of
    32, which share a scale, begin at other ones.
    """
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118 - a safe_open is no mapping
                weights[name] = file.get_tensor(name).astype(np.float32)
    return as_computed(weights, json.loads((folder / "config.json").read_text()))


def as_computed(weights: Weights, config: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
    """A checkpoint's tensors, of a parsed config.json, as `logits` wants them."""
    heads = config["num_attention_heads"]
    weights = dict(_parts(weights, config))
    if config["model_type"].startswith("gemma"):
        weights = {name: w + 1 if w.ndim == 1 else w for name, w in weights.items()}
    for name in weights:
        if name.endswith("o_proj.weight"):
            columns = weights[name].reshape(len(weights[name]), heads, -1)
            weights[name] = _spread(columns).reshape(len(columns), -1)
    return weights


def _parts(weights: Weights, config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tensors by the names that Llama has for them: those of several are cut up."""
    q, kv = (
        config[f"num_{which}_heads"] * config["head_dim"] for which in ("attention", "key_value")
    )
    cuts = {"qkv_proj": (("q", "k", "v"), (q, q + kv)), "gate_up_proj": (("gate", "up"), 2)}
    for stored, values in weights.items():
        if ".mlp.experts." in stored and values.ndim > 1 and stored.endswith(_STACKED):
            yield from _experts(stored, values)
            continue
        name = stored.replace(".mlp.router.", ".mlp.gate.")
        name = name.replace("shared_mlp.input_linear", "mlp.gate_up_proj")
        name = name.replace("shared_mlp.output_linear", "mlp.down_proj")
        whole = next((whole for whole in cuts if f".{whole}." in name), None)
        if whole is None:
            yield name, values
            continue
        parts, where = cuts[whole]
        for part, rows in zip(parts, np.split(values, where), strict=True):
            yield name.replace(whole, f"{part}_proj"), rows


_STACKED = ("_proj", "_proj_bias")


def _experts(stored: str, values: NDArray[Any]) -> Iterator[tuple[str, Any]]:
    """gpt-oss's experts by the names that Qwen has for them, with columns as rows."""
    module, _, part = stored.rpartition(".")
    parts = ("gate", "up") if part.startswith("gate_up") else ("down",)
    end = "bias" if part.endswith("_bias") else "weight"
    for expert, own in enumerate(values):
        for i, name in enumerate(parts):
            yield f"{module}.{expert}.{name}_proj.{end}", own.T[i :: len(parts)]


def _spread(x: NDArray[Any]) -> NDArray[Any]:
    """Heads ``[rows, heads, dim]`` with zeros after each half, as wide as programs have them."""
    rows, heads, dim = x.shape
    wide = next(w for w in range(dim, 512) if w % 16 == 0 and heads * w % 32 == 0)
    halves = x.reshape(rows, heads, 2, dim // 2)
    return np.pad(halves, ((0, 0),) * 3 + ((0, (wide - dim) // 2),)).reshape(rows, heads, wide)


def dequantized(weights: Weights, quant: str) -> dict[str, NDArray[np.float32]]:
    """The weights that a program over a preset computes with; vectors stay as they are."""
    rounding = {"f32": lambda w: w, "f16": lambda w: w.astype(np.float16).astype(np.float32)}
    rounding |= {
        "q8": _rounded_to_even_steps,
        "q6": lambda w: _rounded_by_extremes(w, 32),
        "q5": lambda w: _rounded_by_extremes(w, 16),
        "q4": lambda w: _rounded_by_extremes(w, 8),
        "q4a": _rounded_from_lowest,
        **{
            name: partial(_rounded_to_table, table=table, bytes_=name.startswith("q"))
            for name, table in TABLES.items()
        },
    }
    most, others = MIXED.get(quant, (quant, {}))

    def rounded(name: str, w: NDArray[np.float32]) -> NDArray[np.float32]:
        fitting = (other for glob, other in others.items() if fnmatchcase(name, glob))
        match next(fitting, (most,)):
            case (str(first), int(rows), str(rest)) if rows < len(w):
                return np.concatenate([rounding[first](w[:rows]), rounding[rest](w[rows:])])
            case (str(first), *_):
                return rounding[first](w)
        raise AssertionError(f"{quant} says nothing of {name}")

    def kept(name: str, w: NDArray[np.float32]) -> bool:
        """Vectors, and what chooses among experts."""
        return w.ndim != 2 or name.endswith(ROUTERS)

    return {n: w if kept(n, w) else rounded(n, w) for n, w in weights.items()}


def _rounded_to_even_steps(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Quantize and dequantize ``[rows, k]``: in groups of 32 columns, -127 to 127 steps."""
    groups = _groups(weights)
    peak = np.abs(groups).max(axis=2, keepdims=True)
    return _rounded(weights, groups, peak / np.float32(127), -127, 127)


def _rounded_by_extremes(weights: NDArray[np.float32], steps: int) -> NDArray[np.float32]:
    """The same where the value furthest from zero, whichever its sign, is ``-steps`` steps: the
    negative one of two equally far."""
    groups = _groups(weights)
    low, high = groups.min(axis=2, keepdims=True), groups.max(axis=2, keepdims=True)
    scale = np.where(high > -low, high, low) / np.float32(-steps)
    return _rounded(weights, groups, scale, -steps, steps - 1)


def _rounded_to_table(
    weights: NDArray[np.float32], table: tuple[int, ...], *, bytes_: bool
) -> NDArray[np.float32]:
    """The same where it is the table's lowest value, and others are the nearest of the table's: of
    two equally near the first. With scales in ``bytes_``, n for n (n + 128) of what makes the
    row's largest scale that of 127."""
    groups, values = _groups(weights), np.array(table, np.float32)
    low, high = groups.min(axis=2, keepdims=True), groups.max(axis=2, keepdims=True)
    scale = np.where(high > -low, high, low) / values[0]
    if bytes_:
        unit = np.abs(scale).max(axis=1, keepdims=True) / np.float32(127 * 255)
        kept = np.arange(128) * np.arange(128, 256)
        found = np.abs(np.abs(scale) / np.where(unit == 0, 1, unit) - kept).argmin(axis=2)
        scale = np.copysign(kept[found][..., None].astype(np.float32) * unit, scale)
    else:
        scale = scale.astype(np.float16).astype(np.float32)
    steps = groups / np.where(scale != 0, scale, np.float32(1))
    if bytes_:  # What lies all but halfway is decided after a sum in float32.
        inner = np.clip(steps, values[0] / 3, -values[0] / 3)
        steps = (steps + inner) - inner
    nearest = values[np.abs(steps[..., None] - values).argmin(axis=-1)]
    rows, k = weights.shape
    return (nearest * scale).astype(np.float32).reshape(rows, -1)[:, :k]


def _rounded_from_lowest(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same in 15 steps from the lowest value to the highest; scale and lowest are float16."""
    groups = _groups(weights)
    low, high = groups.min(axis=2, keepdims=True), groups.max(axis=2, keepdims=True)
    scale = ((high - low) / np.float32(15)).astype(np.float16).astype(np.float32)
    minimum = (-low).astype(np.float16).astype(np.float32)
    integers = np.rint((groups + minimum) / np.where(scale != 0, scale, np.float32(1)))
    rows, k = weights.shape
    return (np.clip(integers, 0, 15) * scale - minimum).astype(np.float32).reshape(rows, -1)[:, :k]


def _groups(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    rows, k = weights.shape
    return np.pad(weights, ((0, 0), (0, -k % GROUP))).reshape(rows, -1, GROUP)


def _rounded(
    weights: NDArray[np.float32],
    groups: NDArray[np.float32],
    scale: NDArray[np.float32],
    least: int,
    most: int,
) -> NDArray[np.float32]:
    scale = scale.astype(np.float16).astype(np.float32)
    safe = np.where(scale != 0, scale, np.float32(1))
    integers = np.clip(np.rint(groups / safe), least, most)
    rows, k = weights.shape
    return (integers * scale).astype(np.float32).reshape(rows, -1)[:, :k]


def logits(
    cfg: ModelConfig,
    weights: Weights,
    token_ids: Sequence[int] | NDArray[np.integer],
    *,
    a8: bool = False,
    kv: str = "exact",
) -> Doubles:
    """Teacher-forced logits, float64 ``[n, vocab]``; row i has seen tokens 0..i. Arguments as for
    `hidden`."""
    states = hidden(cfg, weights, token_ids, a8=a8, kv=kv)
    head = "model.embed_tokens.weight" if cfg.tied else "lm_head.weight"
    found = (_int8_groups(states) if a8 else states) @ weights[head].astype(np.float64).T
    return capped(found, cfg.logit_softcap)


def capped(x: Doubles, cap: float | None) -> Doubles:
    """``cap * tanh(x / cap)``."""
    return x if cap is None else np.tanh(x / cap) * cap


def hidden(
    cfg: ModelConfig,
    weights: Weights,
    token_ids: Sequence[int] | NDArray[np.integer],
    *,
    a8: bool = False,
    kv: str = "exact",
) -> Doubles:
    """Hidden states after the final norm, float64 ``[n, hidden]``; row i has seen tokens 0..i.

    Args:
        a8: quantize the input of every linear to int8 in groups of 32, as w4a8 and w8a8 do.
        kv: round keys and values to ``float16``, as they lie in the pages of those programs, or to
            ``int8`` with a float16 scale for each head of a token; ``exact`` keeps them.
    """
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    activations = _int8_groups if a8 else lambda x: x
    pages = {
        "exact": lambda x: x,
        "float16": lambda x: x.astype(np.float16).astype(np.float64),
        "int8": _int8_heads,
    }[kv]

    def linear(x: Doubles, module: str) -> Doubles:
        y = activations(x) @ w[f"{module}.weight"].T
        return y + w[f"{module}.bias"] if f"{module}.bias" in w else y

    def norm(x: Doubles, module: str) -> Doubles:
        mean = np.square(x).mean(axis=-1, keepdims=True)
        return x / np.sqrt(mean + cfg.rms_eps) * w[f"{module}.weight"]

    def mlp(h: Doubles, module: str) -> Doubles:
        gate, up = linear(h, f"{module}.gate_proj"), linear(h, f"{module}.up_proj")
        slope = gate
        if cfg.activation == "clamped_silu":
            gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0) + 1.0
            slope = 1.702 * gate
        if cfg.activation == "gelu_tanh":
            slope = np.sqrt(8 / np.pi) * (gate + 0.044715 * gate**3)
        return linear(gate / (1.0 + np.exp(-slope)) * up, f"{module}.down_proj")

    def mixed(h: Doubles, module: str, mixture: Mixture) -> Doubles:
        """Routers read what nothing has rounded."""
        scores = h @ w[f"{module}.gate.weight"].T + w.get(f"{module}.gate.bias", 0.0)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        chosen = np.argsort(-scores, axis=1, kind="stable")[:, : mixture.chosen]
        y = np.zeros_like(h)
        for row, ids in enumerate(chosen):
            total = shares[row, ids].sum() if mixture.normalize else 1.0
            for expert in ids:
                one = mlp(h[row : row + 1], f"{module}.experts.{expert}")
                y[row] += shares[row, expert] / total * one[0]
        if mixture.shared is not None:
            gate = h @ w[f"{module}.shared_expert_gate.weight"].T
            y += mlp(h, f"{module}.shared_expert") / (1 + np.exp(-gate))
        return y

    n = len(token_ids)
    turning = cfg.rotated or cfg.stored_head_dim
    ropes = cfg.rope, cfg.local_rope or cfg.rope
    tables = [rope_table(rope, turning, cfg.context)[:n].astype(np.float64) for rope in ropes]

    def rotate(x: Doubles, layer: int) -> Doubles:
        if layer in cfg.still:
            return x
        cos, sin = tables[layer in cfg.local].swapaxes(0, 1)[:, :, None]
        a, b, rest = np.split(x, (turning // 2, turning), axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)

    causal = np.where(np.tri(n, dtype=bool), 0.0, -np.inf)
    behind = np.where(np.tri(n, k=-(cfg.window or n), dtype=bool), -np.inf, 0.0)
    x = w["model.embed_tokens.weight"][np.asarray(token_ids)] * cfg.embed_factor
    for i in range(cfg.layers):
        layer = f"model.layers.{i}"
        before, after = NORMS[cfg.norms]
        h = norm(x, f"{layer}.{before[0]}") if before else x
        q, k, v = (linear(h, f"{layer}.self_attn.{part}_proj") for part in "qkv")
        if cfg.row_norm:
            q, k = (norm(y, f"{layer}.self_attn.{p}_norm") for p, y in (("q", q), ("k", k)))
        q, k, v = (y.reshape(n, -1, cfg.stored_head_dim) for y in (q, k, v))
        if cfg.qk_norm:
            q, k = (norm(y, f"{layer}.self_attn.{p}_norm") for p, y in (("q", q), ("k", k)))
        q, k, v = rotate(q, i), pages(rotate(k, i)), pages(v)
        if cfg.temperature is not None:
            beta, original = cfg.temperature
            q = q * (1 + beta * np.log(1 + np.arange(n) // original))[:, None, None]
        share = cfg.heads // cfg.kv_heads
        k, v = k.repeat(share, axis=1), v.repeat(share, axis=1)
        scores = capped(np.einsum("qhd,khd->hqk", q, k) * cfg.sm_scale, cfg.softcap) + causal
        if i in cfg.local:
            scores += behind
        if cfg.sinks:
            # A key more, without a value.
            sinks = np.broadcast_to(w[f"{layer}.self_attn.sinks"][:, None, None], (cfg.heads, n, 1))
            scores = np.concatenate([scores, sinks], axis=-1)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = scores[..., :n] / scores.sum(axis=-1, keepdims=True)
        attended = _spread(np.einsum("hqk,khd->qhd", scores, v)).reshape(n, -1)
        y = linear(attended, f"{layer}.self_attn.o_proj")
        x = x + (norm(y, f"{layer}.{after[0]}") if after else y)
        h = norm(x, f"{layer}.{before[1]}") if before else x
        if cfg.mixture is not None and i in cfg.mixture.layers:
            y = mixed(h, f"{layer}.mlp", cfg.mixture)
        else:
            y = mlp(h, f"{layer}.mlp")
        x = x + (norm(y, f"{layer}.{after[1]}") if after else y)
    return norm(x, "model.norm") * cfg.logit_factor


def _int8_groups(x: Doubles) -> Doubles:
    """What int8 activations with a float32 scale per 32 columns stand for."""
    n, k = x.shape
    groups = np.pad(x, ((0, 0), (0, -k % GROUP))).astype(np.float32).reshape(n, -1, GROUP)
    peak = np.abs(groups).max(axis=2, keepdims=True)
    inverse = np.divide(np.float32(127), peak, out=np.zeros_like(peak), where=peak > 0)
    # Programs round the exact product: half of a group's largest number is next to a tie.
    integers = np.rint(groups.astype(np.float64) * inverse)
    return (integers * (peak / np.float32(127))).reshape(n, -1)[:, :k]


def _int8_heads(x: Doubles) -> Doubles:
    """What int8 codes of heads ``[n, heads, dim]`` stand for."""
    scale = (np.abs(x).max(axis=2, keepdims=True) / 127).astype(np.float16).astype(np.float64)
    codes = np.rint(np.divide(x, scale, out=np.zeros_like(x), where=scale > 0))
    return np.clip(codes, -127, 127) * scale


def greedy(cfg: ModelConfig, weights: Weights, prompt: Sequence[int], count: int) -> list[int]:
    """``count`` tokens of greatest logit after ``prompt``, ends ignored; no cache is kept."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits(cfg, weights, tokens)[-1].argmax()))
    return tokens[len(prompt) :]
