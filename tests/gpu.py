"""Runs single GPU kernels: TIR to WGSL to a real adapter, which in tests is lavapipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.webgpu.codegen import shader
from tests import vulkan

# More threads than one make lavapipe's times bimodal, and the suite no faster.
os.environ.setdefault("LP_NUM_THREADS", "1")

Array = npt.NDArray[Any]

Runner = Callable[[Launch, Sequence[Array], tuple[int, int]], list[Array]]
"""Launches a kernel over workgroups in x and y; what `run` takes and gives."""

_elsewhere: ContextVar[Runner | None] = ContextVar("elsewhere", default=None)

LIMITS = {
    "max-storage-buffers-per-shader-stage": 8,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-invocations-per-workgroup": 256,
    "max-storage-buffer-binding-size": 128 << 20,
}
"""WebGPU's defaults: what every kernel must be content with."""


@cache
def device() -> Any:
    """A device with WebGPU's default limits, float16 and subgroups."""
    import wgpu

    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
    software = [a for a in adapters if a.info["adapter_type"] == "CPU"]
    return (software or adapters)[0].request_device_sync(
        required_features=["shader-f16", "subgroup"], required_limits=LIMITS
    )


@cache
def _shader(launch: Launch) -> Shader:
    return shader(launch.function)


@cache
def _pipeline(made: Shader) -> Any:
    code = made.source.replace("enable subgroups;", "")
    module = device().create_shader_module(code=code)
    return device().create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": made.entry}
    )


@contextmanager
def elsewhere(runner: Runner) -> Iterator[None]:
    """Has `run` launch kernels by ``runner`` instead of the adapter."""
    token = _elsewhere.set(runner)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def runs_elsewhere() -> Runner | None:
    """What `run` launches kernels by, if that is not the adapter."""
    return _elsewhere.get()


def run(
    launch: Launch, arrays: Sequence[Array], *, alike: bool = True, **symbols: int
) -> list[Array]:
    """Launch a kernel once, with the grid it has at these symbols (``n=3, b=1``).

    Args:
        arrays: an array per argument, in order; any dtype, a multiple of 4 bytes each.
        alike: whether what it writes is the same in all languages, as it is but for what it makes
            of a NaN.

    Returns:
        The arrays afterwards: copies of those that the kernel may write, the others as they are.
    """
    runner = runs_elsewhere()
    if runner is not None:
        return runner(launch, arrays, launch.workgroups(**symbols))
    made = _shader(launch)
    after = run_shader(made, arrays, launch.workgroups(**symbols))
    _record(launch, made, launch.workgroups(**symbols), arrays, after)
    if alike and vulkan.chosen(launch.name):
        _compare(launch, after, vulkan.run(launch, arrays, **symbols))
    return after


def run_shader(made: Shader, arrays: Sequence[Array], grid: tuple[int, int]) -> list[Array]:
    """Launch a shader once over ``grid`` workgroups; see `run`."""
    import wgpu

    usage = wgpu.BufferUsage
    buffers = []
    for array in arrays:
        data = np.ascontiguousarray(array)
        flags = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        buffers.append(device().create_buffer_with_data(data=data.tobytes(), usage=flags))
    last = device().create_buffer_with_data(data=b"\xff" * 16, usage=usage.UNIFORM)
    pipeline = _pipeline(made)
    entries = [
        {"binding": i, "resource": {"buffer": b, "offset": 0, "size": b.size}}
        for i, b in enumerate([*buffers, last])
    ]
    group = device().create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device().create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(*grid)
    work.end()
    device().queue.submit([encoder.finish()])
    after = []
    for array, buffer, access in zip(arrays, buffers, made.access, strict=True):
        if access == "read":
            after.append(array)
        else:
            raw = device().queue.read_buffer(buffer)
            after.append(np.frombuffer(raw, array.dtype).reshape(array.shape).copy())
    return after


def _compare(launch: Launch, wgsl: Sequence[Array], spirv: Sequence[Array]) -> None:
    """Hold what a kernel's SPIR-V wrote to what its WGSL did, on one driver: the same, but for what
    drivers may fuse and reorder in WGSL alone, a thousandth of the integers at most."""
    for i, (array, ours) in enumerate(zip(wgsl, spirv, strict=True)):
        what = f"{launch.name}: argument {i} in SPIR-V"
        if array.dtype.kind == "f":
            finite = np.abs(array[np.isfinite(array)].astype(np.float64))
            most = finite.max(initial=0.0) * (1e-3 if array.dtype == np.float16 else 1e-5)
            np.testing.assert_allclose(ours, array, rtol=0, atol=most, err_msg=what)
        else:
            assert np.count_nonzero(ours != array) <= array.size // 1000, what


def _record(
    launch: Launch,
    made: Shader,
    grid: tuple[int, int],
    before: Sequence[Array],
    after: Sequence[Array],
) -> None:
    """Keep the call where EDGEWISE_RECORD_KERNELS names a folder: see bench/gpu/recording.py.

    With EDGEWISE_RECORD_FATBINS, also the same kernel for CUDA.
    """
    folder = os.environ.get("EDGEWISE_RECORD_KERNELS")
    if folder:
        from gpu.recording import Call, save_call

        written = {i: after[i] for i, access in enumerate(made.access) if access != "read"}
        call = Call(launch.name, made.source, made.entry, grid, tuple(before), written)
        if os.environ.get("EDGEWISE_RECORD_FATBINS"):
            entry, made_fatbin = _fatbin(launch)
            call = replace(call, fatbin=made_fatbin, fatbin_entry=entry)
        save_call(Path(folder), call)


@cache
def _fatbin(launch: Launch) -> tuple[str, bytes]:
    from edgewise_compiler.targets.cuda.codegen import shader
    from edgewise_compiler.targets.cuda.fatbin import fatbin

    made = shader(launch.function)
    return made.entry, fatbin(made.entry, made.source)
