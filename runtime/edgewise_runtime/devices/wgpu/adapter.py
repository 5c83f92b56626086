"""WebGPU adapters of this machine, by wgpu-native: which there are and what programs get from them.

The package ``wgpu`` is imported when a device is made, not before.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.index import by_index
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.files import temporary_folder
from edgewise_runtime.format.abi import MAX_BINDING
from edgewise_runtime.installed import WGPU

BACKENDS = ("Metal", "Vulkan", "D3D12")
"""Ways to reach an adapter, the preferred first where one shows up in several."""

KINDS = {
    "DiscreteGPU": "discrete",
    "IntegratedGPU": "integrated",
    "Unknown": "virtual",
    "CPU": "cpu",
}
"""Kinds of adapters, the preferred first; a ``cpu`` is a driver that needs no GPU."""

DISPLAY_FOLDER = "XDG_RUNTIME_DIR"

# What wgpu-native's WGSL has on every adapter, by an instruction or by several.
LANGUAGE_FEATURES = frozenset({"packed_4x8_integer_dot_product"})
FEATURES = {"shader-f16": "shader-f16", "subgroup": "subgroups", "subgroups": "subgroups"}
"""What programs may need, by the names that wgpu-native gives it."""


@dataclass(frozen=True)
class Adapter:
    """One adapter. `index` is what people choose it by; the best one has 0.

    Attributes:
        kind: ``discrete``, ``integrated``, ``virtual`` or ``cpu``.
        backend: ``Metal``, ``Vulkan`` or ``D3D12``.
        features: what it says it has, by the names programs use.
        max_buffer: bytes of a buffer at most.
        max_binding: bytes of a buffer that a shader can see at most.
        handle: wgpu's object.
    """

    index: int
    name: str
    kind: str
    backend: str
    driver: str
    features: frozenset[str]
    max_buffer: int
    max_binding: int
    handle: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.backend})"


_users: set[int] = set()
"""Ids of this process and of those it was forked from, if they used GPUs."""


def package() -> Any:
    """The package ``wgpu``.

    Raises:
        DeviceError: ``device.wgpu`` where it is not installed, or its library does not load;
            ``device.fork`` in a process forked from one that used it.
    """
    if _users - {os.getpid()}:
        raise DeviceError(
            "This process was forked from one that used GPUs, and drivers do not survive a fork.",
            remedy="Start processes with 'spawn', or fork before the first use of a GPU.",
            code="device.fork",
        )
    _users.add(os.getpid())
    try:
        return importlib.import_module("wgpu")
    except ModuleNotFoundError as cause:
        message = f"Running WebGPU programs needs the package {cause.name!r}."
        remedy = f"Install it: {WGPU.install}"
        raise DeviceError(message, remedy=remedy, code="device.wgpu") from cause
    except (ImportError, OSError, RuntimeError) as cause:
        message = f"The package wgpu does not load: {cause}."
        remedy = f"Install it anew: {WGPU.install} --force-reinstall"
        raise DeviceError(message, remedy=remedy, code="device.wgpu") from cause


def adapters() -> tuple[Adapter, ...]:
    """The adapters of this machine, the best first, each once.

    Raises:
        DeviceError: ``device.wgpu``.
    """
    api = package()
    with _no_display():
        return in_order(api.gpu.enumerate_adapters_sync())


@contextmanager
def _no_display() -> Iterator[None]:
    """Drivers look for a display, which nothing here needs, and complain where none can be."""
    if DISPLAY_FOLDER in os.environ:
        yield
        return
    os.environ[DISPLAY_FOLDER] = str(temporary_folder())
    try:
        yield
    finally:
        del os.environ[DISPLAY_FOLDER]


def in_order(handles: Iterable[Any]) -> tuple[Adapter, ...]:
    """The adapters that can run programs: the best kind first, otherwise as the system has them.

    What several backends show is one adapter, reached by the preferred one.
    """
    found = [handle for handle in handles if _backend(handle) in BACKENDS]
    found.sort(key=lambda handle: BACKENDS.index(_backend(handle)))
    best: dict[tuple[int, int, str], str] = {}
    for handle in found:
        best.setdefault(_identity(handle), _backend(handle))
    once = [handle for handle in found if _backend(handle) == best[_identity(handle)]]
    once.sort(key=lambda handle: list(KINDS).index(_type(handle)))
    return tuple(_adapter(index, handle) for index, handle in enumerate(once))


def _backend(handle: Any) -> str:
    return str(handle.info["backend_type"])


def _type(handle: Any) -> str:
    found = str(handle.info["adapter_type"])
    return found if found in KINDS else "Unknown"


def _identity(handle: Any) -> tuple[int, int, str]:
    """What an adapter is called alike by every backend. Two equal cards share it."""
    info = handle.info
    return info["vendor_id"], info["device_id"], "" if info["device_id"] else info["device"]


def _adapter(index: int, handle: Any) -> Adapter:
    info, limits = handle.info, handle.limits
    driver = " ".join(part for part in (info["vendor"], info["description"]) if part)
    return Adapter(
        index=index,
        name=info["device"] or info["description"] or "unnamed adapter",
        kind=KINDS[_type(handle)],
        backend=info["backend_type"],
        driver=driver,
        features=LANGUAGE_FEATURES
        | frozenset(FEATURES[name] for name in handle.features if name in FEATURES),
        max_buffer=limits["max-buffer-size"] & ~3,
        max_binding=min(limits["max-storage-buffer-binding-size"], MAX_BINDING) & ~3,
        handle=handle,
    )


def some_adapters() -> tuple[Adapter, ...]:
    """The adapters of this machine, at least one.

    Raises:
        DeviceError: ``device.wgpu``; ``device.adapter`` where there is none.
    """
    found = adapters()
    if not found:
        raise DeviceError(
            "This machine has no Vulkan, Metal or Direct3D 12 adapter.",
            remedy="Install the GPU's driver, or a software one such as Mesa's lavapipe "
            "(apt install mesa-vulkan-drivers).",
            code="device.adapter",
        )
    return found


def choose_adapter(index: int | None) -> Adapter:
    """The adapter with an index, None for the best.

    Raises:
        DeviceError: ``device.adapter`` where there is none, listing those there are.
    """
    return by_index(some_adapters(), index, "WebGPU adapter", "Adapters")
