"""Requests of all kinds, and what a program answers them one at a time, to the bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.engine.pace import Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.engine.sequence import Sequence as Running
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import Tokenizer
from tests.conftest import BundleFactory

CASE = "qwen3-gqa2-tied"
PAGES = 64
CONTEXT = 256


@dataclass(frozen=True)
class Which:
    """A program: the weights' scheme, how it keeps KV, its name where it runs on a GPU."""

    quant: str
    kv: str = "auto"
    gpu: str | None = None

    def __str__(self) -> str:
        return "-".join(part for part in (self.quant, self.gpu, self.kv) if part)

    def load(self, bundles: BundleFactory) -> LoadedProgram:
        """Load it with `PAGES` pages."""
        targets = ("cpu",) if self.gpu is None else ("webgpu",)
        bundle = Bundle.open(bundles(CASE, self.quant, targets=targets, kv=self.kv))
        device = CpuDevice(threads=2) if self.gpu is None else WgpuDevice()
        name = self.gpu and self.gpu + ("-kv8" if self.kv == "int8" else "")
        return device.load(bundle, name, load_symbols={"pages": PAGES})


AGREEING = [
    Which("q4"),
    Which("q8"),
    Which("q4", "int8"),
    Which("q4", gpu="webgpu-f32-serial"),
    Which("q4", "int8", "webgpu-f32-serial"),
]
"""Programs whose decode gives the bits of their prefill."""

DIFFERING = [
    Which("f32"),
    Which("f16"),
    Which("f32", "int8"),
    Which("q4", gpu="webgpu-f32"),
    Which("q4", "int8", "webgpu-f32"),
]
"""Programs whose decode does not."""


def params(programs: Iterable[Which]) -> list[Any]:
    """Programs to parametrize tests with: a software GPU takes its time, and runs one in two before
    a change lands."""

    def marks(which: Which) -> list[pytest.MarkDecorator]:
        if not which.gpu:
            return []
        return [pytest.mark.full if which.kv == "int8" else pytest.mark.landing]

    return [pytest.param(which, id=str(which), marks=marks(which)) for which in programs]


@dataclass(frozen=True)
class Said:
    """What a sequence was answered. The numbers of floats are compared to the bit."""

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]


def text(seed: int, count: int) -> tuple[int, ...]:
    """Token ids of a random text; none of them ends it."""
    return tuple(np.random.default_rng(seed).integers(5, 320, count).tolist())


def request(prompt: Sequence[int], tokens: int = 12, **sampling: Any) -> Request:
    """A request that goes on past end tokens."""
    return Request(
        tuple(prompt), SamplingParams(max_tokens=tokens, **{"ignore_eos": True, **sampling})
    )


TOP: dict[str, Any] = {"logprobs": True, "top_logprobs": 20}
REQUESTS = [
    request(text(1, 17), 20, temperature=0, **TOP),
    request(text(2, 40), 18, temperature=0.8, top_p=0.9, seed=3),
    request(text(3, 5), temperature=0, repetition_penalty=1.4, **TOP),
    request(
        text(4, 33), temperature=1.2, top_k=40, presence_penalty=0.6, frequency_penalty=0.4, seed=4
    ),
    request(text(5, 70), temperature=1.0, logit_bias={7: 4.0, 200: -3.0}, seed=(1 << 64) - 1),
    request(text(6, 16), temperature=0.7, min_p=0.05, seed=6, **TOP),
    request(text(7, 1), temperature=1.5, top_k=3, repetition_penalty=0.8, seed=7, ignore_eos=False),
    request(text(8, 64), temperature=0.0, logit_bias={9: 2.0}, **TOP),
]
"""Lengths around pages and chunks; every way to choose the next token."""


def silent(asked: Request) -> Request:
    """The same request without log-probabilities, so that it may be decoded in bursts."""
    return replace(asked, params=replace(asked.params, logprobs=False, top_logprobs=0))


@cache
def _tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder)


def engine_of(program: LoadedProgram, pages: int = PAGES, **options: Any) -> GenerationEngine:
    """An engine that knows no prefix; what earlier ones left in the pages is still there."""
    return GenerationEngine(
        program,
        _tokenizer(program.bundle.path),
        pages=pages,
        context=CONTEXT,
        options=EngineOptions(**{"pace": Unpaced(), **options}),
    )


def said(sequences: Iterable[Running]) -> list[Said]:
    """What has been answered."""
    return [Said(tuple(s.tokens), tuple(s.logprobs)) for s in sequences]


def answers(engine: GenerationEngine, asked: Iterable[Request]) -> list[Said]:
    """Answer requests together; afterwards everything is where it belongs."""
    sequences = [one for each in asked for one in engine.sequences(each)]
    for _ in engine.run(sequences):
        pass
    assert engine.check() == []
    return said(sequences)


def alone(program: LoadedProgram, asked: Request) -> Said:
    """What a request is answered by an engine that has never seen another one."""
    [answer] = answers(engine_of(program), [asked])
    return answer


def restored(engine: GenerationEngine) -> int:
    """Pages that came back from the engine's store."""
    return int(engine.metrics.snapshot()["kv_pages_restored_total"])
