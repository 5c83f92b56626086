"""The CUDA driver's own interface, by ctypes: no package stands between, and no CUDA toolkit.

Functions are called by the names that every driver since 2022 exports, newer ones too. A call lets
other Python threads run, and a signal waits for its end.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_void_p
from functools import lru_cache
from typing import Any

from edgewise_runtime.errors import DeviceError

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
"""Comes with the GPU's driver; `DRIVER` names another file, for tests."""

DRIVER = "EDGEWISE_CUDA_DRIVER"

LEAST_VERSION = 12000
"""The oldest CUDA whose driver loads what is compiled here: 12.0, driver 525."""

_Handles = ctypes.POINTER(c_void_p)
_Address = ctypes.c_uint64


class Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``: a rectangle of bytes from one memory to another."""

    _fields_ = (
        ("srcXInBytes", c_size_t),
        ("srcY", c_size_t),
        ("srcMemoryType", c_uint),
        ("srcHost", c_void_p),
        ("srcDevice", _Address),
        ("srcArray", c_void_p),
        ("srcPitch", c_size_t),
        ("dstXInBytes", c_size_t),
        ("dstY", c_size_t),
        ("dstMemoryType", c_uint),
        ("dstHost", c_void_p),
        ("dstDevice", _Address),
        ("dstArray", c_void_p),
        ("dstPitch", c_size_t),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
    )


ON_HOST, ON_DEVICE = 1, 2
"""Types of memory."""

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(c_int),),
    "cuDeviceGetCount": (ctypes.POINTER(c_int),),
    "cuDeviceGet": (ctypes.POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (ctypes.POINTER(c_size_t), c_int),
    "cuCtxCreate_v2": (_Handles, c_uint, c_int),
    "cuCtxDestroy_v2": (c_void_p,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (ctypes.POINTER(c_size_t), ctypes.POINTER(c_size_t)),
    "cuMemAlloc_v2": (ctypes.POINTER(_Address), c_size_t),
    "cuMemFree_v2": (_Address,),
    "cuMemHostAlloc": (_Handles, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD8Async": (_Address, c_ubyte, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (_Address, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _Address, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, c_size_t, c_void_p),
    "cuMemcpy2DAsync_v2": (ctypes.POINTER(Copy2D), c_void_p),
    "cuModuleLoadData": (_Handles, c_char_p),
    "cuModuleGetFunction": (_Handles, c_void_p, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, _Handles, _Handles),
    "cuStreamCreate": (_Handles, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _Handles),
    "cuGraphInstantiateWithFlags": (_Handles, c_void_p, ctypes.c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (_Handles, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (ctypes.POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuGetErrorName": (c_int, ctypes.POINTER(c_char_p)),
    "cuGetErrorString": (c_int, ctypes.POINTER(c_char_p)),
}
"""What is called, each with the types of its arguments. Every one returns an error or 0."""

OUT_OF_MEMORY, NO_DEVICE = 2, 100
NO_CODE = {200, 209, 218, 222}
"""Errors of code that the GPU or its driver does not run: an invalid image, no binary for the GPU,
invalid PTX, PTX of a later version."""

OLD_DRIVER = {34, 35, 803, 804}
"""Errors of a driver that does not suit the GPU, or this use of it."""

LOST = {4, 46, 201, 214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 911, 999}
"""Errors after which a context does nothing any more: of the GPU's memory, of a kernel that left
its own, of one that took too long, of a GPU that is gone."""


class CudaError(Exception):
    """What the driver said to a call.

    Attributes:
        number: its error.
        function: what was called.
    """

    def __init__(self, number: int, function: str, said: str) -> None:
        self.number = number
        self.function = function
        super().__init__(f"{said} ({function})")


class Driver:
    """The driver's library, initialized.

    Attributes:
        version: of CUDA that it implements, 12040 for 12.4.

    Raises:
        CudaError: it does not start.
        OSError: there is no library.
        AttributeError: it lacks a function.
    """

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._functions = {}
        for name, types in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self.call("cuInit", 0)
        found = c_int()
        self.call("cuDriverGetVersion", ctypes.byref(found))
        self.version = found.value

    @property
    def cuda(self) -> str:
        """The version as people write it."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}"

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CudaError: it returned an error.
        """
        if error := self._functions[name](*arguments):
            raise self.error(name, error)

    def error(self, name: str, number: int) -> CudaError:
        """What a function returned, as an error with the driver's words."""
        return CudaError(number, name, self._explain(number))

    def function(self, name: str) -> Any:
        """A function itself, for whoever calls it often and looks at what it returns."""
        return self._functions[name]

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that makes something, and return what it made."""
        made = c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def _explain(self, error: int) -> str:
        words = c_char_p()
        if self._functions["cuGetErrorString"](error, ctypes.byref(words)) or not words.value:
            return f"error {error}"
        return words.value.decode(errors="replace")


@lru_cache(maxsize=1)
def _driver(path: str, process: int) -> Driver:
    return Driver(path)


def open_driver() -> Driver:
    """This process's driver.

    Raises:
        DeviceError: ``device.driver`` where there is none, or it does not start; ``device.fork`` in
            a process forked from one that used it.
    """
    if _users - {os.getpid()}:
        raise DeviceError(
            "This process was forked from one that used GPUs, and drivers do not survive a fork.",
            remedy="Start processes with 'spawn', or fork before the first use of a GPU.",
            code="device.fork",
        )
    path = os.environ.get(DRIVER) or LIBRARY
    remedy = "Install NVIDIA's driver, or give the container the GPU (docker run --gpus all)."
    try:
        driver = _driver(path, os.getpid())
    except OSError as cause:
        raise DeviceError(
            f"This machine has no NVIDIA driver: {cause}.", remedy=remedy, code="device.driver"
        ) from cause
    except AttributeError as cause:
        raise DeviceError(
            f"NVIDIA's driver is too old: {cause}.", remedy=_UPDATE, code="device.driver"
        ) from cause
    except CudaError as error:
        if error.number in OLD_DRIVER:
            remedy = _UPDATE
        raise DeviceError(
            f"NVIDIA's driver does not start: {error}.", remedy=remedy, code="device.driver"
        ) from error
    if driver.version < LEAST_VERSION:
        raise DeviceError(
            f"NVIDIA's driver has CUDA {driver.cuda}, and programs need {LEAST_VERSION // 1000}.0.",
            remedy=_UPDATE,
            code="device.driver",
        )
    _users.add(os.getpid())
    return driver


_UPDATE = "Update it, to 525 or later."

_users: set[int] = set()
"""Ids of this process and of those it was forked from, if they used GPUs."""
