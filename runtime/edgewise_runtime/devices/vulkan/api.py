"""Vulkan by the package ``vulkan``: its functions, its structures, and what their results mean.

Only the package's declarations are used. Its own wrappers convert every argument anew, which costs
tens of microseconds a call, and do not know every result. The package is imported when a device is
made, not before.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.installed import VULKAN

VERSION = (1, 2)
"""Of Vulkan, at least: timeline semaphores and float16 are a part of it."""

FOREVER = (1 << 64) - 1
WHOLE = (1 << 64) - 1
"""Bytes: up to the end."""

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z0-9])")


class VulkanError(Exception):
    """A call of Vulkan failed. `name` is its result, such as ``VK_ERROR_DEVICE_LOST``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the driver answers {name}")
        self.name = name


class Api:
    """The loader with an instance.

    Attributes:
        constants: the package, for its ``VK_`` constants.
        ffi, lib: cffi's, of the package.
        instance: the ``VkInstance``.
        made, gone: how many objects of each kind were made and destroyed, see `Objects`.
    """

    def __init__(self) -> None:
        self.constants = package()
        self.ffi: Any = self.constants.ffi
        self.lib: Any = self.constants.lib
        self.made: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()
        self.lock = threading.Lock()
        self._kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._results = {
            value: name
            for name, value in vars(self.constants).items()
            if name.startswith("VK_ERROR_") and isinstance(value, int)
        }
        self.instance = self._instance()

    def _instance(self) -> Any:
        application = self.info(
            "ApplicationInfo",
            pApplicationName=self.text("edgewise"),
            apiVersion=self.constants.VK_MAKE_VERSION(*VERSION, 0),
        )
        out = self.ffi.new("VkInstance *")
        made = self.info("InstanceCreateInfo", pApplicationInfo=application)
        self.check(self.lib.vkCreateInstance(made, self.ffi.NULL, out))
        return out[0]

    def close(self) -> None:
        """Destroy the instance."""
        self.lib.vkDestroyInstance(self.instance, self.ffi.NULL)

    def alive(self) -> dict[str, int]:
        """How many objects of each kind there are."""
        with self.lock:
            return dict(self.made - self.gone)

    def text(self, value: str) -> Any:
        """A string of C."""
        return self.ffi.new("char[]", value.encode())

    def info(self, kind: str, **fields: Any) -> Any:
        """A new structure ``Vk<kind>``, its type filled in; it keeps alive what it points to."""
        named = _WORDS.sub("_", kind).upper()
        kinds: dict[str, Any] = vars(self.constants)
        typed = {"sType": kinds[f"VK_STRUCTURE_TYPE_{named}"], **fields}
        return self._new(f"Vk{kind} *", typed, fields)

    def array(self, kind: str, items: Iterable[Any]) -> Any:
        """A new array of ``Vk<kind>``: of handles, of fields by name, or of what `info` made."""
        listed = list(items)
        whole = [
            item[0] if isinstance(item, self.ffi.CData) and self._is_info(item, kind) else item
            for item in listed
        ]
        return self._new(f"Vk{kind}[]", whole, listed)

    def _is_info(self, item: Any, kind: str) -> bool:
        return bool(self.ffi.typeof(item) is self.ffi.typeof(f"Vk{kind} *"))

    def _new(self, kind: str, value: Any, kept: Any) -> Any:
        made = self.ffi.new(kind, value)
        self._kept[made] = kept
        return made

    def check(self, result: int) -> int:
        """A call's result, if it is no error.

        Raises:
            VulkanError: it is one.
        """
        if result < 0:
            raise VulkanError(self._results.get(result, f"VkResult {result}"))
        return result

    def listed(self, function: str, kind: str, *arguments: Any) -> list[Any]:
        """What a function lists in an array of ``Vk<kind>``, asked first for how many there are.

        Raises:
            VulkanError: it fails.
        """
        call, count = getattr(self.lib, function), self.ffi.new("uint32_t *")
        # Some of these functions cannot fail, and return nothing.
        self.check(call(*arguments, count, self.ffi.NULL) or 0)
        array = self.ffi.new(f"Vk{kind}[]", count[0])
        self.check(call(*arguments, count, array) or 0)
        return [array[at] for at in range(count[0])]


class Objects:
    """Objects of Vulkan that belong together: destroyed together, those made last first.

    Args:
        device: the ``VkDevice`` they are of.
    """

    def __init__(self, api: Api, device: Any) -> None:
        self.api = api
        self.device = device
        self._made: dict[tuple[str, int], Any] = {}

    def create(self, kind: str, info: Any) -> Any:
        """A new ``Vk<kind>`` of what `Api.info` made.

        Raises:
            VulkanError: the driver makes none.
        """
        out = self.api.ffi.new(f"Vk{kind} *")
        function = getattr(self.api.lib, _MAKERS.get(kind, f"vkCreate{kind}"))
        self.api.check(function(self.device, info, self.api.ffi.NULL, out))
        return self.adopt(kind, out[0])

    def adopt(self, kind: str, handle: Any) -> Any:
        """Take over an object that was made otherwise."""
        self._made[kind, self._number(handle)] = handle
        with self.api.lock:
            self.api.made[kind] += 1
        return handle

    def drop(self, kind: str, handle: Any) -> None:
        """Destroy one of them now."""
        del self._made[kind, self._number(handle)]
        getattr(self.api.lib, _ENDERS.get(kind, f"vkDestroy{kind}"))(
            self.device, handle, self.api.ffi.NULL
        )
        with self.api.lock:
            self.api.gone[kind] += 1

    def destroy(self) -> None:
        """Destroy all of them; nothing may use them any more."""
        for (kind, _), handle in reversed([*self._made.items()]):
            self.drop(kind, handle)

    def _number(self, handle: Any) -> int:
        return int(self.api.ffi.cast("uintptr_t", handle))


_MAKERS = {"DeviceMemory": "vkAllocateMemory"}
_ENDERS = {"DeviceMemory": "vkFreeMemory"}

_users: set[int] = set()
"""Ids of this process and of those it was forked from, if they used Vulkan."""


def package() -> Any:
    """The package ``vulkan``, which loads the Vulkan loader.

    Raises:
        DeviceError: ``device.vulkan`` where it is not installed, or finds no loader;
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
        return importlib.import_module("vulkan")
    except ModuleNotFoundError as cause:
        message = f"Running Vulkan programs needs the package {cause.name!r}."
        remedy = f"Install it: {VULKAN.install}"
        raise DeviceError(message, remedy=remedy, code="device.vulkan") from cause
    except (ImportError, OSError) as cause:
        message = f"The package vulkan finds no Vulkan loader: {cause}."
        remedy = "Install the GPU's driver, which brings it along (Debian: apt install libvulkan1)."
        raise DeviceError(message, remedy=remedy, code="device.vulkan") from cause


_api: dict[int, Api] = {}


def api() -> Api:
    """The process's instance, made when first needed.

    Raises:
        DeviceError: as `package` does; ``device.adapter`` where the loader makes no instance.
    """
    found = _api.get(os.getpid())
    if found is None:
        try:
            found = Api()
        except VulkanError as cause:
            raise DeviceError(
                f"The Vulkan loader gives no instance: {cause}.",
                remedy="Install or update the GPU's driver, or a software one such as Mesa's "
                "lavapipe (apt install mesa-vulkan-drivers).",
                code="device.adapter",
            ) from cause
        _api[os.getpid()] = found
    return found


def forget() -> None:
    """Destroy the process's instance, so that the next use makes another; no device may be left."""
    found = _api.pop(os.getpid(), None)
    if found is not None:
        found.close()
