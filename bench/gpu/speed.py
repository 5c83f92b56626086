"""How fast a loaded program of a GPU is: its generation loop, its steps and its kernels.

Tokens are drawn with what models' own files ask for (`steps.DEFAULTS`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from typing import Any, Protocol

from edgewise_runtime.cost import plan_cost
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.pace import MAX_BURST
from edgewise_runtime.format.bundle import Bundle, Progress
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.text import Tokenizer
from gpu.kernels import KernelTime, Work, plan_of
from steps import DEFAULTS, Steps

PROMPT = 128
"""Tokens in KV when decoding is measured."""

MOST_TOKENS = 192
"""Tokens a sequence of one sample, at most."""

BURSTS = (1, MAX_BURST)

SLACK = MAX_BURST
"""Tokens that a sequence may be ahead of the one that began last."""


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds, seconds a sample of decoding should take, prompts' tokens,
    sequences decoded together, and tokens in KV of each."""

    rounds: int
    sample_s: float
    prefills: tuple[int, ...]
    batches: tuple[int, ...] = (1, 4)
    histories: tuple[int, ...] = (PROMPT,)


FULL = Effort(rounds=5, sample_s=1.0, prefills=(128, 512))
QUICK = Effort(rounds=1, sample_s=0.1, prefills=(128,))

FULL_CUDA = Effort(5, 1.0, prefills=(512, 4096), batches=(1, 8, 32), histories=(PROMPT, 4096))
QUICK_CUDA = Effort(1, 0.1, prefills=(128,), batches=(1, 4))
"""For GPUs with memory of their own, which serve several people."""


class Timed(LoadedProgram, Protocol):
    """A loaded program that a device of this bench can time."""

    @property
    def clock_source(self) -> str:
        """Whose clock times steps."""
        ...

    def kernel_times(self, work: Work, rounds: int) -> list[KernelTime]: ...

    def device_seconds(self, work: Work, rounds: int) -> list[float]: ...

    def encode_seconds(self, work: Work, k: int, rounds: int) -> list[float]: ...


class TimedDevices(Protocol):
    """A device whose programs can be timed."""

    target: str

    def load(
        self,
        bundle: Bundle,
        program: Program | str | None = None,
        *,
        load_symbols: Mapping[str, int],
        trust: bool = False,
        progress: Progress | None = None,
    ) -> Timed: ...


class Loop:
    """The generation loop of one program, begun anew for every sample."""

    def __init__(self, program: LoadedProgram, tokenizer: Tokenizer, pages: int) -> None:
        self._steps = Steps(program, tokenizer, pages, program.bundle.model.context, DEFAULTS)

    def prefill(self, tokens: int) -> float:
        """Seconds from a prompt of ``tokens`` to its first token."""
        self._steps.begin(1, tokens, 2)
        start = time.perf_counter()
        self._steps.advance(1)
        return time.perf_counter() - start

    def decode(self, batch: int, burst: int, tokens: int, history: int = PROMPT) -> float:
        """Seconds of a token for each of ``batch`` sequences, over ``tokens`` of each.

        Bursts begin small and grow; what is measured begins at the first of ``burst``.
        """
        # All of 1, 2, ... up to half of it, and the first token.
        warm, measured = burst, max(1, tokens // burst) * burst
        self._steps.begin(batch, history, warm + measured + SLACK, bursts=burst > 1)
        self._steps.advance(warm)
        start = time.perf_counter()
        self._steps.advance(measured)
        return (time.perf_counter() - start) / measured


def runnable(
    features: frozenset[str], bundle: Bundle, wanted: Iterable[str] | None, target: str = "webgpu"
) -> list[str]:
    """Ids of the programs wanted, or of all, that a GPU with these features can run."""
    return [
        program.id
        for program in bundle.manifest.programs
        if program.target == target
        and (wanted is None or program.id in wanted)
        and not program.needs.missing(features)
    ]


def measure_program(
    device: TimedDevices, bundle: Bundle, program_id: str, effort: Effort, gigabytes: float
) -> dict[str, Any]:
    """Every figure of one program; seconds unless a name says otherwise.

    Args:
        gigabytes: of memory that are moved in a second; floors go by them.
    """
    longest = max(*effort.prefills, max(effort.histories) + MOST_TOKENS + 2 * MAX_BURST)
    page_tokens = paged_state(bundle.manifest).page_tokens
    batches = [batch for batch in effort.batches if batch <= bundle.model.max_batch]
    pages = max(batches) * pages_for(min(bundle.model.context, longest), page_tokens)
    start = time.perf_counter()
    # Kernels of this folder: whoever packed it is trusted with this machine.
    program = device.load(bundle, program_id, load_symbols={"pages": pages}, trust=True)
    with program:
        load = time.perf_counter() - start
        loop = Loop(program, Tokenizer.from_bundle(bundle), pages)
        loop.decode(1, MAX_BURST, MAX_BURST)
        tokens = int(effort.sample_s / loop.decode(1, MAX_BURST, MAX_BURST))
        tokens = min(MOST_TOKENS, max(1, tokens // MAX_BURST) * MAX_BURST)
        lengths = [n for n in effort.prefills if n < bundle.model.context]
        decodes = [Work("decode", b, b, kv) for kv in effort.histories for b in batches]
        prefills = [Work("prefill", n, 1, 0) for n in lengths if n <= bundle.model.prefill_chunk]
        return {
            "bundle": bundle.name,
            "program": program_id,
            "load_s": round(load, 3),
            "memory_mib": {k: round(v / 2**20, 1) for k, v in program.memory().items()},
            "speed": _speed(loop, effort, batches, tokens, lengths),
            "steps": [_step(program, work, effort, gigabytes) for work in (*decodes, *prefills)],
        }


def _speed(
    loop: Loop, effort: Effort, batches: Iterable[int], tokens: int, prefills: Iterable[int]
) -> dict[str, dict[str, float]]:
    """Tokens a second of the generation loop; samples interleave."""
    seconds: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    decodes = list(product(effort.histories, batches, BURSTS))
    for _ in range(effort.rounds):
        for n in prefills:
            counts[f"prefill {n}"] = n
            seconds.setdefault(f"prefill {n}", []).append(loop.prefill(n))
        for history, batch, burst in decodes:
            name = f"decode x{batch} k={burst}"
            name += "" if history == PROMPT else f" after {history}"
            counts[name] = batch
            seconds.setdefault(name, []).append(loop.decode(batch, burst, tokens, history))
    return {name: spread([counts[name] / s for s in got]) for name, got in seconds.items()}


def _step(program: Timed, work: Work, effort: Effort, gigabytes: float) -> dict[str, Any]:
    """What one step of a plan costs: on the device, in its kernels, between them, and to encode."""
    plan = plan_of(program, work)
    values = {name: work.symbols[name] for name in ("n", "b", "r")} | {"kv": work.kv}
    cost = plan_cost(plan, values)
    bursts = BURSTS if plan.max_burst > 1 else (1,)
    device = program.device_seconds(work, effort.rounds)
    kernels = program.kernel_times(work, effort.rounds)
    between = median(device) - sum(kernel.seconds for kernel in kernels)
    encode = {k: median(program.encode_seconds(work, k, effort.rounds)) for k in bursts}
    return {
        "operation": work.operation,
        "rows": work.rows,
        "sequences": work.sequences,
        "kv": work.kv,
        "plan": plan.name,
        "launches": cost.launches,
        "bytes": cost.bytes,
        "flops": cost.flops,
        "clock": program.clock_source,
        "device_s": spread(device, digits=7),
        "gap_s_per_launch": round(between / cost.launches, 9),
        "floor_s": round(cost.bytes / gigabytes / 1e9, 7),
        "encode_s": {str(k): round(s, 7) for k, s in encode.items()},
        "encode_s_per_launch": {str(k): round(s / cost.launches, 9) for k, s in encode.items()},
        "kernels": [
            {
                **asdict(kernel),
                "gigabytes_per_s": round(kernel.gigabytes, 2),
                "gigaflops_per_s": round(kernel.gigaflops, 2),
            }
            for kernel in kernels
        ],
    }


def spread(values: list[float], digits: int = 2) -> dict[str, float]:
    """The median of some samples, the lowest and the highest."""
    return {
        "median": round(median(values), digits),
        "low": round(min(values), digits),
        "high": round(max(values), digits),
    }
