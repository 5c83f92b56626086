"""How every device loads a program: what is checked and in which order, before anything is bound.

A device has ``load = loading.load`` and binds what comes out (`Checked`). It never sees a program
that may not run here: native code is trusted or refused before a device hears of it, and the code
it is handed is the very bytes that were checked, so that a file cannot change in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from typing import Protocol, TypeVar

from edgewise_runtime.devices import common
from edgewise_runtime.devices.arrays import GIB
from edgewise_runtime.devices.paging import Paging, paging
from edgewise_runtime.errors import BundleError, DeviceError
from edgewise_runtime.format.bundle import Bundle, Progress
from edgewise_runtime.format.manifest import Program, TensorEntry
from edgewise_runtime.format.plan import Buffer, Plan
from edgewise_runtime.format.state import PAGES, paged_state
from edgewise_runtime.format.targets import TARGETS
from edgewise_runtime.trust import Trust, verify_program


@dataclass(frozen=True)
class Checked:
    """A program that a device may bind to memory.

    Attributes:
        plans: its plans by name, checked at these load symbols.
        load_symbols: values of the load symbols.
        sizes: bytes of every buffer by name.
        pages: what a page of its state is.
        code: contents of its library or of its kernels' files, by path in the bundle.
        progress: hears about parameter files being hashed, and copied where they must be.
    """

    bundle: Bundle
    program: Program
    plans: Mapping[str, Plan]
    load_symbols: Mapping[str, int]
    sizes: Mapping[str, int]
    pages: Paging
    code: Mapping[str, bytes]
    progress: Progress | None

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The program's buffers by name."""
        return {buffer.name: buffer for plan in self.plans.values() for buffer in plan.buffers}

    def params(self) -> Iterator[tuple[Mapping[str, TensorEntry], Mapping[str, FileIO]]]:
        """Where parameters lie, and their files by name, some at a time, for a loop that copies
        them: once it has ended, they were undamaged.

        Files may have to be hashed, so a device asks when nothing else can be refused any more. See
        `Bundle.open_params`.

        Raises:
            BundleError: ``bundle.checksum``.
        """
        tensors = self.bundle.manifest.layouts[self.program.layout]
        params = {b.name: tensors[b.name] for b in self.buffers.values() if b.role == "param"}
        for files in self.bundle.open_params(self.program.layout, self.progress):
            yield {name: t for name, t in params.items() if t.file in files}, files


Loaded_co = TypeVar("Loaded_co", covariant=True)
Loaded = TypeVar("Loaded")


class Binds(Protocol[Loaded_co]):
    """What `load` needs of a device. See `base.Device`."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    def features(self) -> frozenset[str]: ...

    def available_memory(self) -> int | None: ...

    def largest_buffer(self) -> int | None: ...

    def bind(self, checked: Checked) -> Loaded_co:
        """Compile or load the code, take the memory, fill in the parameters.

        Raises:
            DeviceError: ``device.memory``, ``device.runtime``, ``device.kernel`` and the like.
            BundleError: damaged parameters.
        """
        ...


def load(
    self: Binds[Loaded],
    bundle: Bundle,
    program: Program | str | None = None,
    *,
    load_symbols: Mapping[str, int],
    trust: Trust = False,
    progress: Progress | None = None,
) -> Loaded:
    """See `base.Device.load`, which this is of every device."""
    chosen = common.choose(bundle, program, self.features(), self.target, self.name)
    group = paged_state(bundle.manifest)
    plans = bundle.plans(chosen.id)
    sizes = common.buffer_sizes(plans, load_symbols)
    check_buffers(plans, sizes, self.largest_buffer(), self.name)
    check_memory(plans, sizes, self.available_memory())
    verify_program(bundle.manifest, chosen, trust)
    pages = paging(group, chosen.state_dtype, load_symbols[PAGES])
    code = read_code(bundle, chosen, plans)
    load_symbols = dict(load_symbols)
    return self.bind(Checked(bundle, chosen, plans, load_symbols, sizes, pages, code, progress))


def check_buffers(
    plans: Mapping[str, Plan], sizes: Mapping[str, int], most: int | None, here: str
) -> None:
    """Refuse a program with a buffer that is larger than the device allows.

    Raises:
        DeviceError: ``device.memory`` with the buffer's name and both numbers.
    """
    for buffer in (buffer for plan in plans.values() for buffer in plan.buffers):
        size = sizes[buffer.name]
        if most is not None and size > most:
            pages = "Choose a smaller context (--context), so that fewer KV pages are kept."
            other = "Choose another device, or a smaller model."
            raise DeviceError(
                f"The buffer {buffer.name!r} takes {size:,} bytes; {here} allows {most:,}.",
                remedy=pages if buffer.role == "state" else other,
                code="device.memory",
            )


def check_memory(
    plans: Mapping[str, Plan], sizes: Mapping[str, int], available: int | None
) -> None:
    """Refuse a program that does not fit before anything is allocated.

    Parameters count too: every token reads all of them.

    Raises:
        DeviceError: ``device.memory`` with the bytes per role.
    """
    per_role = common.count_bytes(plans, sizes)
    total = sum(per_role.values())
    if available is not None and total > available:
        parts = ", ".join(f"{role} {size / GIB:.2f}" for role, size in per_role.items())
        raise DeviceError(
            f"The program needs {total / GIB:.2f} GiB of memory ({parts}), and "
            f"{available / GIB:.2f} GiB are available.",
            remedy="Ask for fewer KV pages, choose a smaller model or quantization, or free some.",
            code="device.memory",
        )


def read_code(bundle: Bundle, program: Program, plans: Mapping[str, Plan]) -> dict[str, bytes]:
    """The library, or the files of the kernels that plans launch, compared with their sha256.

    Raises:
        DeviceError: ``device.library`` for a program without the library it should have.
        BundleError: ``bundle.shader`` for a kernel without a file; ``bundle.library`` or
            ``bundle.shader`` for a file that is larger than the target allows; ``bundle.checksum``
            and ``bundle.size`` for a damaged one.
    """
    target = TARGETS[program.target]
    kind = "library" if target.one_library else "shader"
    if target.one_library:
        if program.library is None:
            raise DeviceError(f"Program {program.id!r} has no library.", code="device.library")
        paths = {program.library}
    else:
        kernels = {name for plan in plans.values() for name in plan.kernels}
        if missing := sorted(kernels - program.shaders.keys()):
            message = f"Program {program.id!r} has no file for the kernel {missing[0]!r}."
            raise BundleError(message, code="bundle.shader")
        paths = {program.shaders[name] for name in kernels}
    for path in sorted(paths):
        size = bundle.manifest.files[path].bytes
        if size > target.largest_file:
            message = f"{path} has {size:,} bytes; {target.largest_file:,} are read at most."
            raise BundleError(message, code=f"bundle.{kind}")
    return {path: bundle.read(path) for path in sorted(paths)}
