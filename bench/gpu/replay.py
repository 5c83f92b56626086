"""Recorded kernel calls on another device, and how far its answers are from the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgewise_runtime.devices.wgpu.gpu import Gpu
from gpu.clock import bind, compute_pipeline
from gpu.recording import Array, Call, load_call

F32_TOLERANCE = 1e-4
"""Largest difference of float32 results, relative to the root mean square of what was written."""

F16_TOLERANCE = 5e-3
"""The same where a shader computes in float16, or writes it: 11 bits, and some sums of them."""

SUBGROUPS = "enable subgroups;"
"""wgpu-native has subgroup operations and does not know the line that WebGPU asks for them with."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call: ``worst`` of its arguments' errors, and of the tolerance for them.

    ``error`` is relative for floats and counts the elements that differ for integers; ``failure``
    is what the device said where it could not run the shader.
    """

    kernel: str
    error: float
    tolerance: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        """Whether every argument came out as recorded."""
        return not self.failure and self.error <= self.tolerance


def replay_all(gpu: Gpu, paths: Iterable[Path]) -> Iterator[Outcome]:
    """Every recorded call that the GPU's features allow."""
    for path in paths:
        call = load_call(path)
        if needed_features(call.source) <= gpu.features:
            yield replay(gpu, call)


def needed_features(source: str) -> set[str]:
    """The features a shader asks for, as programs name them."""
    names = {"enable f16;": "shader-f16", SUBGROUPS: "subgroups"}
    return {feature for line, feature in names.items() if line in source}


def replay(gpu: Gpu, call: Call) -> Outcome:
    """Run one call and compare."""
    return judged(call, lambda: run(gpu, call))


def judged(call: Call, run: Callable[[], Mapping[int, Array]]) -> Outcome:
    """Compare what running a call gives with what was recorded."""
    half = "enable f16;" in call.source
    try:
        after = run()
    except Exception as problem:
        # Whatever a driver refuses is a result, and the calls after it are still of interest.
        return Outcome(call.kernel, np.inf, 0.0, f"{type(problem).__name__}: {problem}"[:300])
    worst = Outcome(call.kernel, 0.0, 0.0)
    for i, expected in call.after.items():
        found = difference(call.before[i], expected, after[i])
        exact = not np.issubdtype(expected.dtype, np.floating)
        low = half or expected.dtype == np.float16
        allowed = 0.0 if exact else F16_TOLERANCE if low else F32_TOLERANCE
        outcome = Outcome(call.kernel, found, allowed)
        if not outcome.passed or (worst.passed and found >= worst.error):
            worst = outcome
    return worst


def difference(before: Array, expected: Array, found: Array) -> float:
    """How far ``found`` is from ``expected``: see `Outcome`.

    Elements that the kernel left as they were do not count towards the scale, but a difference in
    them does. Infinities and NaN must be at the same places.
    """
    if not np.issubdtype(expected.dtype, np.floating):
        return float(np.count_nonzero(expected != found))
    wanted, got = expected.astype(np.float64), found.astype(np.float64)
    same = (wanted == got) | (np.isnan(wanted) & np.isnan(got))
    if same.all():
        return 0.0
    finite = np.isfinite(wanted) & np.isfinite(got)
    if (~same & ~finite).any():
        return float(np.inf)
    written = wanted[finite & (expected != before)]
    scale = np.sqrt(np.mean(written**2)) if written.size else 0.0
    largest = np.abs(wanted - got)[finite].max()
    return float(largest / scale) if scale else float(np.inf)


def run(gpu: Gpu, call: Call) -> dict[int, Array]:
    """The arguments that a call may write, afterwards."""
    usage, device = gpu.api.BufferUsage, gpu.device
    flags = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
    buffers = [
        device.create_buffer_with_data(data=np.ascontiguousarray(array).tobytes(), usage=flags)
        for array in call.before
    ]
    last = device.create_buffer_with_data(data=b"\xff" * 16, usage=usage.UNIFORM)
    pipeline = compute_pipeline(device, call.source.replace(SUBGROUPS, ""), call.entry)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, bind(device, pipeline, [*buffers, last]))
    work.dispatch_workgroups(*call.grid)
    work.end()
    device.queue.submit([encoder.finish()])
    after = {}
    for i, expected in call.after.items():
        raw = device.queue.read_buffer(buffers[i])
        after[i] = np.frombuffer(raw, expected.dtype).reshape(expected.shape)
    return after
