"""The error of a sequence whose logits are not finite: where that began, and the way out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.kv.finite import Fault, PageNumbers


def sound_rows(logits: npt.NDArray[np.float32]) -> int:
    """How many rows there are before one that no token can be drawn from: one with NaN or
    +infinity, or with nothing above -infinity."""
    sound = np.isfinite(logits.max(axis=1))
    return int(sound.argmin()) if not sound.all() else len(logits)


def find_fault(program: LoadedProgram, pages: Sequence[int]) -> Fault | None:
    """What in a sequence's pages is not finite. Raises what `read_page` does."""
    group = paged_state(program.bundle.manifest)
    return PageNumbers(group, program.program.state_dtype).find(pages, program.read_page)


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
