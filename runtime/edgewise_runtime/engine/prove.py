"""Whether a loaded program computes what its bundle says it must, see `format.proof`.

A driver may get a shader wrong without a word. A few tokens find out before a person reads any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import StepBuffers
from edgewise_runtime.engine.table_rows import Line
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.proof import Proof, bound_of
from edgewise_runtime.format.state import paged_state, pages_for

GREEDY = SamplingParams(temperature=0.0, top_p=1.0)
NEVER = 1 << 20


def prove(program: LoadedProgram, proof: Proof, pages: int) -> None:
    """Let a program read a proof's tokens, and compare what it answers.

    The first tokens come in two chunks, which are for different plans, the next two one at a time,
    the last of them beside another sequence. Nobody else may be using the program.

    Args:
        pages: how many it has; where they are too few, nothing happens.

    Raises:
        DeviceError: ``device.output`` where it computes something else; whatever `run` raises.
    """
    page = paged_state(program.bundle.manifest).page_tokens
    groups = range(len(program.bundle.manifest.state_groups))
    last = len(proof.tokens) - 1
    count = pages_for(last + 1, page)
    # Each group's pages of the text, and one more of another.
    own, *beside = (range(group * count, (group + 1) * count) for group in groups)
    more = len(groups) * count
    if last < page + 2 or more + len(groups) > pages:
        return
    buffers = StepBuffers(program, ())

    def step(operation: str, **symbols: int) -> None:
        plan = program.program.plan_for(operation, symbols)
        if plan is None:
            raise DeviceError(f"There is no plan to {operation} {symbols}.", code="device.plan")
        program.run(plan)

    def prefill(start: int, stop: int) -> None:
        rows = stop - start
        buffers.compute(
            [Line(start, rows, own, NEVER, 0, beside)], proof.tokens[start:stop], reach=stop
        )
        step("embed", n=rows)
        step("prefill", n=rows, b=1)
        buffers.logit_rows([rows - 1])
        step("logits", r=1)
        _likeliest(program, proof, 0, stop - 1)

    def decode(lines: Sequence[Line]) -> None:
        count = len(lines)
        tokens = [proof.tokens[line.start] for line in lines]
        buffers.compute(lines, tokens, reach=last + 1, logits=count)
        buffers.sampling([(GREEDY, 0, 0)] * count)
        step("decode", b=count)
        best = [_likeliest(program, proof, row, line.start) for row, line in enumerate(lines)]
        drawn = [found[0] for found in buffers.drawn(count)]
        if drawn != best:
            raise _wrong(program, f"it drew the tokens {drawn} where {best} are the likeliest")

    # Not beyond what it takes in a step.
    for end, start in ((page + 1, 0), (last - 1, page + 1)):
        for first in range(start, end, buffers.rows):
            prefill(first, min(first + buffers.rows, end))
    lines = [Line(position, 1, own, NEVER, 0, beside) for position in (last - 1, last)]
    decode(lines[:1])
    # Another that has read just the first page, which both of them look at.
    shared, *others = ([group * count, more + group] for group in groups)
    other = Line(page, 1, shared, NEVER, 1, others)
    decode([lines[1], other] if buffers.sequences > 1 else lines[1:])


def _likeliest(program: LoadedProgram, proof: Proof, row: int, position: int) -> int:
    """The id of the largest logit of a row, once the row proved to be right."""
    logits = program.read("logits", slice(row, row + 1))[0, : program.bundle.model.vocab]
    off = proof.distance(position, logits.astype(np.float64).tolist())
    if not off <= bound_of(program.program.arithmetic):
        after = f"after {position + 1} tokens"
        raise _wrong(program, f"{after} its logits are off by {off:.2f} of their deviation")
    return int(logits.argmax())


def _wrong(program: LoadedProgram, what: str) -> DeviceError:
    chosen = program.program
    others = [
        p.id
        for p in program.bundle.manifest.programs
        if p.target == chosen.target and p.id != chosen.id
    ]
    another = f", or choose another program with --program: {', '.join(others)}" if others else ""
    return DeviceError(
        f"The program {chosen.id} computes something else here than it should: {what}.",
        remedy=f"Update the GPU's driver{another}.",
        code="device.output",
    )
