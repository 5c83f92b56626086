"""What the launches of a plan write, for whoever compares it launch by launch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Plan, Step


@dataclass(frozen=True)
class Output:
    """A piece of a buffer, as the kernel that writes it sees it."""

    buffer: str
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """How many it has."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def array(self, data: Array) -> Array:
        """Its bytes as the kernel sees them."""
        return data.view(self.dtype).reshape(self.shape)


def outputs_of(plan: Plan, step: Step, symbols: Mapping[str, ex.Range]) -> tuple[Output, ...]:
    """What a launch writes but for state, each as large as the symbols' bounds allow."""
    states = {buffer.name for buffer in plan.buffers if buffer.role == "state"}
    return tuple(
        Output(
            binding.buffer,
            binding.offset,
            arg.dtype,
            tuple(ex.bounds(dim, symbols)[1] for dim in arg.shape),
        )
        for arg, binding in zip(plan.kernels[step.kernel].args, step.bindings, strict=True)
        if arg.writes and binding.buffer not in states
    )
