"""The error of a sequence whose logits are not finite: where that began, and the way out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.kv.finite import Fault, PageNumbers
from edgewise_runtime.kv.holding import GONE, Holding


def sound_rows(logits: npt.NDArray[np.float32]) -> int:
    """How many rows there are before one that no token can be drawn from: one with NaN or
    +infinity, or with nothing above -infinity."""
    sound = np.isfinite(logits.max(axis=1))
    return int(sound.argmin()) if not sound.all() else len(logits)


def find_fault(program: LoadedProgram, holding: Holding | None, tokens: int) -> Fault | None:
    """What in the pages of a sequence's first tokens is not finite: the first layer's fault, of
    those pages that it still has. Raises what `read_page` does."""
    if holding is None:
        return None
    manifest = program.bundle.manifest
    whole = paged_state(manifest)
    count = pages_for(tokens, whole.page_tokens)
    faults: list[Fault] = []
    for group, row in zip(manifest.state_groups, holding.rows, strict=True):
        numbers = PageNumbers(group, program.program.state_dtype, whole)
        gone = row.count(GONE)  # the first ones
        fault = numbers.find(row[gone:count], program.read_page)
        if fault is not None:
            faults.append(replace(fault, page=gone + fault.page))
    return min(faults, key=lambda fault: fault.layer, default=None)


def from_fault(holding: Holding | None, fault: Fault) -> list[int]:
    """The pages of a sequence, of all groups, from that of a fault on."""
    rows = () if holding is None else holding.rows
    return [page for row in rows for page in row[fault.page :] if page != GONE]


def not_finite(program: Program, fault: Fault | None, tokens: int) -> EngineError:
    """The error of a sequence that has no token after the one of this number, from 1.

    Args:
        fault: what was found in its pages; None where they are finite.
    """
    what, remedy = _explained(program, fault)
    return EngineError(
        f"The model's logits after token {tokens:,} are not finite, so that no other can follow: "
        f"{what}.",
        remedy=remedy,
        code="engine.not_finite",
    )


def states_not_finite(program: Program, fault: Fault | None) -> EngineError:
    """The error of a sequence whose hidden states have no vector; `fault` as for `not_finite`."""
    what, remedy = _explained(program, fault)
    return EngineError(
        f"The model's hidden states are not finite: {what}.",
        remedy=remedy,
        code="engine.not_finite",
    )


def _explained(program: Program, fault: Fault | None) -> tuple[str, str]:
    wider = "Compile the model with --quant f32 --target cpu, which computes in float32."
    if fault is None:
        return "what comes after the keys and values of the last layer has overflowed", wider
    if fault.part == "both" or program.state_dtype == "float32":
        return f"what layer {fault.layer} is given, or makes of it, has overflowed", wider
    return (
        f"the {fault.part} of layer {fault.layer} are beyond what KV pages of "
        f"{program.state_dtype} hold, in the program {program.id}"
    ), "Compile the model with --kv f32, for pages of float32, which hold them."
