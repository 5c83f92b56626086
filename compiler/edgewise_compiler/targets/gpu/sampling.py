"""GPU kernels after the logits: sampling, recording, log-probabilities."""

from __future__ import annotations

from edgewise_compiler.kernels.gpu.sampling.headers import headers
from edgewise_compiler.kernels.gpu.sampling.logprobs import logprobs
from edgewise_compiler.kernels.gpu.sampling.sample import sample_scratch, sampling
from edgewise_compiler.kernels.gpu.sampling.tops import tops, tops_shape
from edgewise_compiler.plan.calls import Argument, Call, Tensor
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import Lowering, mul, read, to
from edgewise_runtime.format.abi import LOGPROBS, TABLE_HEADER


def sampling_calls(low: Lowering, variant: Variant, *, advance: bool) -> tuple[Call, ...]:
    """Sample one token a sequence from ``logits`` and write it where the next step reads it."""
    spec, threads = low.sampling_spec, variant.sampler_threads
    scratch = {
        arg.name: Tensor(f"sample.{arg.name}", "scratch", arg.dtype, arg.shape)
        for arg in sample_scratch(spec, threads=threads)
    }
    steps = sampling(spec, advance=advance, subgroups=variant.subgroups, threads=threads)
    calls = []
    for step in steps:
        arguments = tuple(
            Argument(scratch[name] if name in scratch else low.step_tensor(name), access)
            for name, access in step.arguments
        )
        moved, flops = mul("b", step.words * 4), mul("b", step.flops)
        launch = step.launch
        calls.append(Call(launch.function, arguments, step.label, moved, flops, launch.grid))
    return tuple(calls)


def header_calls(low: Lowering) -> tuple[Call, ...]:
    """The tables of the other state groups as the first one is now; nothing where there is one."""
    others = low.other_tables
    if not others:
        return ()
    launch = headers(low.sampling_spec, len(others))
    arguments = (*read(low.step_tensor("table")), *to("readwrite", *others))
    moved = 8 * TABLE_HEADER * low.bounds.batch * len(others)
    return (Call(launch.function, arguments, "headers", moved, 0, launch.grid),)


def logprobs_calls(low: Lowering) -> tuple[Call, ...]:
    """The log-probabilities of what was sampled, and of the likeliest tokens, from ``logits``."""
    t, spec = low.step_tensor, low.sampling_spec
    found = Tensor("logprobs.tops", "scratch", "int32", tops_shape(spec.batch, spec.columns))
    find, merge = tops(spec), logprobs(spec)
    return (
        Call(
            find.function,
            (*read(t("logits")), *to("write", found), *read(t("step"))),
            "tops",
            mul("b", spec.vocab * 4),
            mul("b", spec.vocab * 20),
            find.grid,
        ),
        Call(
            merge.function,
            (
                *read(t("logits"), t("sampled"), found),
                *to("write", t("logprobs"), t("logprob_ids")),
                *read(t("step")),
            ),
            "logprobs",
            mul("b", LOGPROBS * 8),
            0,
            merge.grid,
        ),
    )
