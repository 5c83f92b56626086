"""What a caller of the compiler asked for, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise_compiler.kernels.cpu.isa import ELSEWHERE, ISAS, Isa
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.quantize import Recipe
from edgewise_compiler.state import KV_KINDS
from edgewise_compiler.targets.cpu.linker import find_cross_linker
from edgewise_compiler.targets.table import (
    DEFAULT_CONTEXT,
    MAX_BATCH,
    TARGETS,
    check_tools,
    default_batch,
)
from edgewise_runtime.cpuid import cpu_arch, cpu_features
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.manifest import ModelInfo
from edgewise_runtime.format.state import pages_for

MAX_CONTEXT = 1 << 20
MAX_PREFILL_CHUNK = 4096


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the step symbols: token rows, sequences, tokens of context."""

    rows: int
    batch: int
    context: int

    @property
    def pages(self) -> int:
        """Pages one sequence can hold."""
        return pages_for(self.context, PAGE_TOKENS)


@dataclass(frozen=True)
class Options:
    """How to compile: targets without repeats, what weights are stored as, bounds, the CPU paths,
    pages, where to dump."""

    targets: tuple[str, ...]
    recipe: Recipe
    bounds: Bounds
    isas: tuple[Isa, ...]
    kv: str
    debug_dump: Path | None

    def kv_dtype(self, own: str) -> str:
        """What pages hold in a program whose arithmetic keeps them in ``own``."""
        return KV_KINDS[self.kv] or own

    @property
    def half_pages(self) -> bool:
        """Whether programs for integer weights, or for a GPU, keep pages of float16."""
        gpu = any(TARGETS[target].layout == "gpu" for target in self.targets)
        return self.kv == "auto" and (gpu or self.recipe.default.integer)


def check_options(
    cfg: ModelConfig,
    *,
    targets: Sequence[str],
    recipe: Callable[[], Recipe],
    context: int | None,
    max_batch: int | None,
    prefill_chunk: int,
    cpu: str,
    kv: str,
    debug_dump: str | Path | None,
    beside: ModelInfo | None = None,
    least_context: int = 2,
) -> Options:
    """Check what `compile_model` was given against the model.

    Args:
        recipe: asked last, for it may take minutes to find.
        beside: of a bundle whose programs these join: its bounds are theirs unless asked for.
        least_context: tokens that the model has to have room for, whatever is compiled.

    Raises:
        UnsupportedError: an unknown target, CPU path or kind of pages.
        InputError: a number out of range, or no target.
        CompileError: this machine lacks a tool that a target needs.
    """
    for target in targets:
        if target not in TARGETS:
            raise UnsupportedError(
                f"There is no target {target!r}.",
                remedy=f"Targets: {', '.join(TARGETS)}.",
                code="unsupported.target",
            )
    if not targets:
        raise InputError(
            "No target to compile for.",
            remedy=f"Targets: {', '.join(TARGETS)}.",
            code="input.target",
        )
    if kv not in KV_KINDS:
        raise UnsupportedError(
            f"KV pages cannot hold {kv!r}.",
            remedy=f"Choose one of {', '.join(KV_KINDS)}.",
            code="unsupported.kv",
        )
    if context is None:
        most = DEFAULT_CONTEXT if beside is None else beside.context
        context = min(cfg.context, most)
    if max_batch is None:
        max_batch = default_batch(targets) if beside is None else beside.max_batch
    for tokens in (least_context, context):
        _in_range("context", tokens, 2, min(cfg.context, MAX_CONTEXT))
    _in_range("max_batch", max_batch, 1, MAX_BATCH)
    _in_range("prefill_chunk", prefill_chunk, 1, MAX_PREFILL_CHUNK)
    rows = max(min(prefill_chunk, context), max_batch)
    paths = _isas(cpu)
    check_tools(targets)
    if any(isa.foreign for isa in paths):
        find_cross_linker()
    return Options(
        targets=tuple(dict.fromkeys(targets)),
        recipe=recipe(),
        bounds=Bounds(rows=rows, batch=max_batch, context=context),
        isas=paths,
        kv=kv,
        debug_dump=Path(debug_dump) if debug_dump is not None else None,
    )


def _in_range(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"{name} is {value!r}, outside {low}..{high}.",
            remedy="The model's config.json says how long its context can be."
            if name == "context"
            else "Choose a number in that range.",
            code="input.range",
        )


def _isas(names: str) -> tuple[Isa, ...]:
    """The programs that ``--cpu`` asks for, names with commas between them, each once."""
    found = (isa for name in names.split(",") for isa in _isas_of(name.strip()))
    return tuple(dict.fromkeys(found))


def _isas_of(name: str) -> tuple[Isa, ...]:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if not ISAS:
        raise UnsupportedError(
            f"There are no programs for a processor of {cpu_arch()}.",
            remedy=f"Name another machine: --cpu {' or '.join(ELSEWHERE)}.",
        )
    here = tuple(ISAS.values())
    if name == "all":
        return here
    if name == "portable":
        return here[-1:]
    if name == "native":
        features = cpu_features()
        return (next(isa for isa in here if features.issuperset(isa.features)),)
    if name not in ISAS:
        raise UnsupportedError(
            f"Instruction set {name!r} is not one of {sorted(ISAS)} on {cpu_arch()}.",
            remedy="Name one of those, native, all or portable, or another machine: "
            f"{' or '.join(ELSEWHERE)}.",
        )
    return (ISAS[name],)
