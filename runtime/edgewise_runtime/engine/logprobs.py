"""Log-probabilities of the tokens just drawn, and of the likeliest ones in their place.

They are the model's own, before penalties, biases, temperature and filters. A program computes them
for all rows of a step at once, where its logits are; only `abi.LOGPROBS` numbers a row are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import NO_TOKEN


@dataclass(frozen=True)
class TokenLogprob:
    """How likely a token was.

    Attributes:
        token_id: the token that was drawn.
        logprob: natural logarithm of its probability, at most 0; -inf where its logit was no
            number.
        top: the likeliest tokens, best first (of equals the lowest id), each as (id, logprob): as
            many as were asked for, fewer only where no other token is possible.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def check_logprobs(program: LoadedProgram) -> None:
    """Refuse a program that cannot tell log-probabilities.

    Raises BundleError ``bundle.entry`` for bundles compiled before there was the operation.
    """
    _plan(program, 1)


def run_logprobs(program: LoadedProgram, rows: int) -> None:
    """Compute them for the first `rows` rows of `logits` and `sampled`.

    Belongs right after `sample`, or `decode` of a single token; ``step`` must say how many
    sequences there are, which a decode in which all have stopped has set to 0 on GPUs.

    Raises BundleError ``bundle.entry`` where the program cannot.
    """
    program.run(_plan(program, rows))


def read_logprobs(
    program: LoadedProgram, wanted: Sequence[SamplingParams]
) -> list[TokenLogprob | None]:
    """Return what `run_logprobs` found for each row, as its request asks; None where it does not.

    Args:
        wanted: the parameters of the request that each row belongs to, from row 0 on.
    """
    if not any(params.logprobs for params in wanted):
        return [None] * len(wanted)
    rows = slice(0, len(wanted))
    values = program.read("logprobs", rows).tolist()
    ids = program.read("logprob_ids", rows).tolist()
    found: list[TokenLogprob | None] = []
    for params, row_values, row_ids in zip(wanted, values, ids, strict=True):
        if not params.logprobs:
            found.append(None)
            continue
        top = zip(row_ids[1:], row_values[1:], strict=True)
        likeliest = tuple(pair for pair in top if pair[0] != NO_TOKEN)[: params.top_logprobs]
        found.append(TokenLogprob(row_ids[0], row_values[0], likeliest))
    return found


def _plan(program: LoadedProgram, rows: int) -> str:
    plan = program.program.plan_for("logprobs", {"b": rows})
    if plan is None:
        raise BundleError(
            f"Program {program.program.id!r} has no plan for log-probabilities of {rows} rows.",
            remedy="Compile the model again with this version of edgewise.",
            code="bundle.entry",
        )
    return plan
