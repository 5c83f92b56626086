"""One token for every sequence of a batch from its logits, on the GPU: the launches in order."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.sampling.draw import draw
from edgewise_compiler.kernels.gpu.sampling.record import count, record
from edgewise_compiler.kernels.gpu.sampling.scores import best, blocks_of, scores
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_compiler.plan.calls import Access


@dataclass(frozen=True)
class SamplingLaunch:
    """A launch, and which buffers it gets: step buffers or scratch, by name."""

    label: str
    launch: Launch
    arguments: tuple[tuple[str, Access], ...]


def sample_scratch(spec: SamplingSpec) -> tuple[Arg, ...]:
    """Scratch of the sampler: a key for every score, and the best key of each block."""
    return (
        Arg("keys", "int32", (spec.batch, spec.columns)),
        Arg("best", "int32", (spec.batch, blocks_of(spec.columns))),
    )


def sampling(spec: SamplingSpec, *, advance: bool, subgroups: bool) -> tuple[SamplingLaunch, ...]:
    """Sample and record: rules as for `sample` and `record` of the CPU.

    Args:
        advance: whether the step's own token went into the pages just now (decode).
    """

    def reads(*names: str) -> tuple[tuple[str, Access], ...]:
        return tuple((name, "read") for name in names)

    return (
        SamplingLaunch(
            "scores",
            scores(spec),
            (
                *reads("logits", "table", "sampling_f", "counts"),
                ("keys", "write"),
                ("step", "read"),
            ),
        ),
        SamplingLaunch(
            "best",
            best(spec, subgroups=subgroups),
            (
                ("keys", "readwrite"),
                *reads("table", "sampling_i", "bias_ids", "bias_values"),
                ("best", "write"),
                ("step", "read"),
            ),
        ),
        SamplingLaunch(
            "sample",
            draw(spec, advance=advance, subgroups=subgroups),
            (
                *reads("keys", "best", "table", "sampling_f", "sampling_i"),
                ("sampled", "write"),
                ("step", "read"),
            ),
        ),
        SamplingLaunch(
            "count",
            count(spec),
            (*reads("sampled", "table", "sampling_f"), ("counts", "readwrite"), ("step", "read")),
        ),
        SamplingLaunch(
            "record",
            record(spec, advance=advance),
            (
                ("sampled", "read"),
                ("table", "readwrite"),
                ("tokens", "write"),
                ("positions", "write"),
                ("ring", "readwrite"),
                *reads("eos", "sampling_i"),
                ("step", "readwrite" if advance else "read"),
            ),
        ),
    )
