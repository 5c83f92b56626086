"""A program's memory on a GPU, all of it taken at once, and counts of what costs time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.wgpu.gpu import Gpu
from edgewise_runtime.errors import DeviceError

MIB = 1 << 20

LAST_UNIFORM = b"\xff" * 16
"""What every kernel has bound after its buffers: its grid is as launched, not folded."""


@dataclass
class Counters:
    """How often a program did what costs time: made things, submitted, read back."""

    buffers: int = 0
    pipelines: int = 0
    bind_groups: int = 0
    submits: int = 0
    dispatches: int = 0
    readbacks: int = 0


def submit(gpu: Gpu, counters: Counters, encoder: Any) -> None:
    """Hand over what was encoded.

    Submitting to a lost device ends the process; finishing the encoder raises before that.
    """
    gpu.queue.submit([encoder.finish()])
    counters.submits += 1


class Buffers:
    """A program's buffers on the GPU by name, zeroed; sizes are rounded up to 4 bytes.

    Raises:
        DeviceError: ``device.memory`` where the GPU's memory does not hold them all; nothing stays
            allocated then.
    """

    def __init__(self, gpu: Gpu, counters: Counters, sizes: Mapping[str, int]) -> None:
        self.sizes = {name: -(-size // 4) * 4 for name, size in sizes.items()}
        self.gpu = gpu
        self.counters = counters
        self._made: dict[str, Any] = {}
        flags = gpu.api.BufferUsage
        usage = flags.STORAGE | flags.COPY_SRC | flags.COPY_DST
        total = sum(self.sizes.values())
        try:
            with gpu.errors(f"{gpu.adapter} does not hold the program's {total / MIB:,.0f} MiB"):
                for name, size in self.sizes.items():
                    self._made[name] = gpu.device.create_buffer(label=name, size=size, usage=usage)
                    counters.buffers += 1
                self.last = gpu.device.create_buffer_with_data(
                    data=LAST_UNIFORM, usage=flags.UNIFORM
                )
                counters.buffers += 1
        except DeviceError as error:
            self.destroy()
            if error.code == "device.memory":
                error.remedy = "Choose a smaller context (--context), so that fewer KV pages are "
                error.remedy += "kept, or a smaller model or quantization."
            raise

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def destroy(self) -> None:
        """Give the memory back."""
        for buffer in self._made.values():
            buffer.destroy()
        self._made = {}
