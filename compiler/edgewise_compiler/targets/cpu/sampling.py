"""The CPU's kernels after the logits: sampling, recording, log-probabilities."""

from __future__ import annotations

from edgewise_compiler.kernels.cpu.sampling.headers import headers
from edgewise_compiler.kernels.cpu.sampling.logprobs import logprobs, logprobs_scratch
from edgewise_compiler.kernels.cpu.sampling.record import record
from edgewise_compiler.kernels.cpu.sampling.sample import sample
from edgewise_compiler.kernels.cpu.sampling.scratch import sample_scratch
from edgewise_compiler.plan.calls import Call, Tensor
from edgewise_compiler.targets.lowering import Lowering, mul, read, to
from edgewise_runtime.format.abi import TABLE_HEADER


def sampling_calls(low: Lowering, isa: str, *, advance: bool) -> tuple[Call, ...]:
    """Sample one token a sequence from ``logits`` and write it where the next step reads it."""
    t, spec = low.step_tensor, low.sampling_spec
    work = (
        Tensor(f"sample.{arg.name}", "scratch", arg.dtype, arg.shape)
        for arg in sample_scratch(spec)
    )
    given = ("logits", "table", "sampling_f", "sampling_i")
    names = (*given, "biases", "grammar_mask", "counts")
    changed = ("table", "tokens", "positions", "ring")
    return (
        Call(
            sample(spec, isa, advance=advance),
            (
                *read(*(t(name) for name in names)),
                *to("write", t("sampled"), *work),
                *read(t("step")),
            ),
            "sample",
            mul("b", spec.vocab * 4),
            mul("b", spec.vocab),
        ),
        Call(
            record(spec, advance=advance),
            (
                *read(t("sampled")),
                *to("readwrite", *(t(name) for name in changed)),
                *read(t("eos")),
                *to("readwrite", t("counts")),
                *read(t("sampling_f"), t("sampling_i"), t("step")),
            ),
            "record",
            mul("b", 64),
            0,
        ),
    )


def header_calls(low: Lowering) -> tuple[Call, ...]:
    """The tables of the other state groups as the first one is now; nothing where there is one."""
    others = low.other_tables
    if not others:
        return ()
    kernel = headers(low.sampling_spec, len(others))
    arguments = (*read(low.step_tensor("table")), *to("readwrite", *others))
    moved = 8 * TABLE_HEADER * low.bounds.batch * len(others)
    return (Call(kernel, arguments, "headers", moved, 0),)


def logprobs_calls(low: Lowering, isa: str) -> tuple[Call, ...]:
    """The log-probabilities of what was sampled, and of the likeliest tokens, from ``logits``."""
    t, spec = low.step_tensor, low.sampling_spec
    work = (
        Tensor(f"logprobs.{arg.name}", "scratch", arg.dtype, arg.shape)
        for arg in logprobs_scratch(spec)
    )
    arguments = (
        *read(t("logits"), t("sampled")),
        *to("write", t("logprobs"), t("logprob_ids"), *work),
        *read(t("step")),
    )
    moved, flops = mul("b", spec.vocab * 4), mul("b", spec.vocab * 20)
    return (Call(logprobs(spec, isa), arguments, "logprobs", moved, flops),)
