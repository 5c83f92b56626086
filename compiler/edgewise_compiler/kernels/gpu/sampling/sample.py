"""One token for every sequence of a batch from its logits, on the GPU: the launches in order."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.sampling.draw import draw
from edgewise_compiler.kernels.gpu.sampling.layout import THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.record import record
from edgewise_compiler.kernels.gpu.sampling.scores import scores
from edgewise_compiler.kernels.gpu.sampling.weigh import masses_shape, weigh
from edgewise_compiler.kernels.gpu.sampling.whole import whole
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_compiler.plan.calls import Access

_LITTLE = 16  # words that a launch moves which looks at no token, about


@dataclass(frozen=True)
class SamplingLaunch:
    """A launch, and which buffers it gets: step buffers or scratch, by name.

    ``words`` are what it reads and writes of a row's scores, or about, where top-k is on and the
    best tokens do; ``flops`` what it computes for a row then.
    """

    label: str
    launch: Launch
    arguments: tuple[tuple[str, Access], ...]
    words: int = _LITTLE
    flops: int = 0


def sample_scratch(spec: SamplingSpec, *, threads: int = THREADS) -> tuple[Arg, ...]:
    """Scratch of the sampler: keys as in `Layout`, blocks' masses, and which rows are left."""
    return (
        Arg("keys", "uint32", (spec.batch, Layout(spec.columns, threads).words)),
        Arg("masses", "uint32", masses_shape(spec, threads)),
        Arg("left", "int32", (spec.batch,)),
    )


def sampling(
    spec: SamplingSpec, *, advance: bool, subgroups: bool, threads: int = THREADS
) -> tuple[SamplingLaunch, ...]:
    """Sample and record: rules as for `sample` and `record` of the CPU.

    Many workgroups read the logits, once. One of each row then draws by reading a small part of
    what they left; only a row that it gives up on is read again, by `whole`.

    Args:
        advance: whether the step's own token went into the pages just now (decode).
        threads: of the workgroups of all but the last launch.
    """
    layout = Layout(spec.columns, threads)

    def reads(*names: str) -> tuple[tuple[str, Access], ...]:
        return tuple((name, "read") for name in names)

    return (
        SamplingLaunch(
            "scores",
            scores(spec, advance=advance, threads=threads),
            (
                *reads("logits", "table", "sampling_f", "sampling_i", "counts"),
                *reads("biases", "grammar_mask"),
                ("keys", "write"),
            ),
            words=spec.vocab + layout.words,
            flops=spec.vocab,
        ),
        SamplingLaunch(
            "weigh",
            weigh(spec, threads=threads),
            (
                *reads("keys", "table", "sampling_f", "sampling_i"),
                ("masses", "write"),
                ("step", "read"),
            ),
        ),
        SamplingLaunch(
            "sample",
            draw(spec, subgroups=subgroups, threads=threads),
            (
                *reads("keys", "masses", "table", "sampling_f", "sampling_i"),
                ("sampled", "write"),
                ("left", "write"),
                ("step", "read"),
            ),
            # It looks at groups' largest keys three times: for a bound, to count, to copy.
            words=3 * layout.blocks * threads,
        ),
        SamplingLaunch(
            "whole",
            whole(spec, subgroups=subgroups, threads=threads),
            (
                *reads("keys", "left", "table", "sampling_f", "sampling_i"),
                ("sampled", "readwrite"),
                ("counts", "readwrite"),
                ("step", "read"),
            ),
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
