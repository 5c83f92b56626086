"""The kinds of devices: each is one entry here and the folder of its name.

The folder's ``entry.py`` has the two functions of `Entry`. It is imported when its kind is asked
for, and no kind needs more than its own packages: those of the others may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, cast

from edgewise_runtime.devices.base import Device
from edgewise_runtime.errors import InputError
from edgewise_runtime.installed import VULKAN, WGPU, Package


@dataclass(frozen=True)
class Found:
    """A device of this machine, as `edgewise doctor` tells of it.

    Attributes:
        name: what ``--device`` calls it.
        about: which processor it is, and its driver.
        features: what programs may need and find on it.
        limits: bytes of what it has limits for.
        trouble: why it runs nothing and what to do about it, empty where it does.
    """

    name: str
    about: str
    features: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""


class Entry(Protocol):
    """What a device's ``entry.py`` has."""

    def make(self, index: int | None, threads: int | None) -> Device:
        """The device with an index, as `find` counts them, None for the best.

        Args:
            threads: of the processor that launches kernels; most kinds have no use for it.

        Raises:
            DeviceError: it cannot be had.
        """
        ...

    def find(self) -> list[Found]:
        """The devices of this kind, the best first.

        Raises:
            DeviceError: there is none, or a package or a driver is missing.
        """
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of device.

    Attributes:
        name: what ``--device`` calls it, and its folder.
        title: what `edgewise doctor` calls it.
        about: which one its bare name means, for help texts.
        target: the target whose programs it runs.
        several: a machine can have more of them: ``name:N`` is one.
        needs: the package that it runs programs with, where edgewise does not bring it along.
    """

    name: str
    title: str
    about: str
    target: str
    several: bool = False
    needs: Package | None = None

    @property
    def forms(self) -> str:
        """How it is named on the command line, in words."""
        needs = "" if self.needs is None else f", by {self.needs.install}"
        return f"{self.name} ({self.about}{needs})" + (f" or {self.name}:N" if self.several else "")

    @property
    def entry(self) -> Entry:
        """What makes and finds devices of this kind."""
        return cast(Entry, import_module(f"edgewise_runtime.devices.{self.name}.entry"))


DEVICES: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("cpu", "CPU", "this machine's processor", target="cpu"),
        Kind("cuda", "CUDA", "the first NVIDIA GPU", target="cuda", several=True),
        Kind("wgpu", "GPUs", "the best GPU", target="webgpu", several=True, needs=WGPU),
        Kind(
            "vulkan",
            "Vulkan",
            "the best GPU, without WebGPU in between",
            target="vulkan",
            several=True,
            needs=VULKAN,
        ),
    )
}
"""By name; where several could run a bundle, the first does."""

FORMS = "; ".join(kind.forms for kind in DEVICES.values()) + ". `edgewise doctor` lists them"


def named_device(name: str, *, threads: int | None = None) -> Device:
    """The device that a name of the command line means.

    Raises:
        InputError: ``input.device`` for a name that means none.
        DeviceError: it cannot be had, see `Entry.make`.
    """
    found, colon, index = name.partition(":")
    kind = DEVICES.get(found)
    if kind is None or (colon and not (kind.several and index.isdecimal())):
        raise InputError(
            f"There is no device {name!r}.", remedy=f"Devices are {FORMS}.", code="input.device"
        )
    return kind.entry.make(int(index) if colon else None, threads)


def device_for_target(target: str, *, threads: int | None = None) -> Device:
    """The best device for programs of a target.

    Raises:
        InputError: ``input.device`` for a target nothing here runs.
        DeviceError: it cannot be had.
    """
    for kind in DEVICES.values():
        if kind.target == target:
            return kind.entry.make(None, threads)
    targets = dict.fromkeys(kind.target for kind in DEVICES.values())
    raise InputError(
        f"Nothing here runs programs for {target}.",
        remedy=f"Targets that run here are {' and '.join(targets)}.",
        code="input.device",
    )
