"""The peer: the same decoder in PyTorch, float16, decode steps captured as CUDA graphs.

Weights are random, of the shape measured; kernels are torch's own (cuBLAS, its attention). Keys and
values lie in one piece as long as the context measured, which pages do not have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from checkpoint import SHAPES, Shape
from gpu.speed import Effort

STEPS = 32
"""Decode steps of a sample."""


def there() -> bool:
    """Whether torch is installed and has a GPU."""
    return find_spec("torch") is not None and import_module("torch").cuda.is_available()


def shapes(names: Iterable[str]) -> list[Shape]:
    """The shapes among names such as ``qwen3-0.6b-q4``, each once."""
    return [shape for name, shape in SHAPES.items() if any(n.startswith(name) for n in names)]


class Decoder:
    """A decoder with random weights and room for keys and values.

    Args:
        device: torch's, ``cuda`` or ``cpu``.
        length: tokens of each sequence at most.
    """

    def __init__(self, shape: Shape, device: str, batch: int, length: int) -> None:
        self.torch = torch = import_module("torch")
        self.shape, self.device, self.batch = shape, device, batch
        self.dtype = torch.float16 if device == "cuda" else torch.float32
        heads, kv, dim = shape.heads, shape.kv_heads, shape.head_dim
        self.qkv = [self._matrix((heads + 2 * kv) * dim, shape.hidden) for _ in self._layers]
        self.out = [self._matrix(shape.hidden, heads * dim) for _ in self._layers]
        self.up = [self._matrix(2 * shape.intermediate, shape.hidden) for _ in self._layers]
        self.down = [self._matrix(shape.hidden, shape.intermediate) for _ in self._layers]
        self.embed = self._matrix(shape.vocab, shape.hidden)
        self.head = self.embed if shape.tied else self._matrix(shape.vocab, shape.hidden)
        self.norm = torch.ones(shape.hidden, dtype=self.dtype, device=device)
        space = (2, batch, kv, length, dim)
        self.cache = [torch.zeros(space, dtype=self.dtype, device=device) for _ in self._layers]
        angles = torch.outer(
            torch.arange(length, device=device).float(),
            shape.theta ** (-torch.arange(dim // 2, device=device).float() / (dim // 2)),
        )
        self.cos, self.sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    @property
    def _layers(self) -> range:
        return range(self.shape.layers)

    def _matrix(self, rows: int, columns: int) -> Any:
        torch = self.torch
        return torch.randn(rows, columns, dtype=self.dtype, device=self.device) * 0.02

    def step(self, tokens: Any, start: int) -> Any:
        """The next tokens [batch] after these [batch, n], whose first is at ``start``."""
        functional, n = self.torch.nn.functional, tokens.shape[1]
        x = functional.embedding(tokens, self.embed)
        for layer in self._layers:
            x = x + self._attention(layer, self._normed(x), start, n)
            gate, up = functional.linear(self._normed(x), self.up[layer]).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, self.down[layer])
        return functional.linear(self._normed(x[:, -1]), self.head).argmax(-1)

    def _normed(self, x: Any) -> Any:
        return self.torch.nn.functional.rms_norm(x, (self.shape.hidden,), self.norm, self.shape.eps)

    def _attention(self, layer: int, x: Any, start: int, n: int) -> Any:
        functional, shape = self.torch.nn.functional, self.shape
        heads, kv, dim = shape.heads, shape.kv_heads, shape.head_dim
        rows = functional.linear(x, self.qkv[layer]).view(self.batch, n, heads + 2 * kv, dim)
        q, k, v = rows.transpose(1, 2).split((heads, kv, kv), 1)
        cache = self.cache[layer]
        cache[0][:, :, start : start + n] = self._rotated(k, start, n)
        cache[1][:, :, start : start + n] = v
        keys, values = (part[:, :, : start + n] for part in cache)
        found = functional.scaled_dot_product_attention(
            self._rotated(q, start, n), keys, values, is_causal=n > 1, enable_gqa=True
        )
        return functional.linear(found.transpose(1, 2).flatten(2), self.out[layer])

    def _rotated(self, x: Any, start: int, n: int) -> Any:
        cos, sin = self.cos[start : start + n], self.sin[start : start + n]
        a, b = x.chunk(2, -1)
        return self.torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def measure(shape: Shape, effort: Effort, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Tokens a second: prompts of one sequence, and decode steps of several."""
    torch = import_module("torch")
    with torch.inference_mode():
        for n in effort.prefills:
            seconds = _timed(Decoder(shape, "cuda", 1, n), n, 0, 2 if quick else effort.rounds)
            yield _found(shape, f"prefill {n}", n / seconds)
        for history in effort.histories:
            for batch in effort.batches:
                decoder = Decoder(shape, "cuda", batch, history + 1)
                seconds = _timed(decoder, 1, history, 2 if quick else effort.rounds)
                yield _found(shape, f"decode x{batch} after {history}", batch / seconds)


def _found(shape: Shape, name: str, rate: float) -> dict[str, Any]:
    return {"shape": shape.name, "name": name, "tokens_per_s": round(rate, 1)}


def _timed(decoder: Decoder, n: int, start: int, rounds: int) -> float:
    """Seconds of a step of ``n`` rows a sequence, each repeated as a graph."""
    torch = decoder.torch
    tokens = torch.zeros((decoder.batch, n), dtype=torch.int64, device="cuda")
    run: Callable[[], Any] = lambda: decoder.step(tokens, start)  # noqa: E731
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    steps = STEPS if n == 1 else 1
    seconds = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            graph.replay()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / steps)
    return median(seconds[1:])
