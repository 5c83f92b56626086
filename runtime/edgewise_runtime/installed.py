"""What of edgewise is installed: its version, its distribution, and packages it can do without.

Two distributions hold the same files, so only one of them is installed at a time: ``edgewise``, and
``edgewise-light``, which brings TVM's runtime library along and does not require TVM
(docs/decisions/0028).
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from edgewise_runtime.errors import (
    CompileError,
    DeviceError,
    EdgewiseError,
    InputError,
    UnsupportedError,
)

VERSION = "0.1.0"
"""Of edgewise. Builds of both distributions read it here."""

DISTRIBUTIONS = ("edgewise", "edgewise-light")


@dataclass(frozen=True)
class Package:
    """A package that only a part of edgewise needs.

    Attributes:
        name: what an index calls it.
        versions: which ones will do, as in ``>=1.2,<2``; empty for any.
        purpose: what it is needed for, the beginning of a sentence.
        error: what is raised where it is missing, and the code.
        extras: of its own, that are needed of it, as in ``[data,serve]``.
    """

    name: str
    versions: str
    purpose: str
    error: tuple[type[EdgewiseError], str]
    extras: str = ""

    @property
    def requirement(self) -> str:
        """It with its versions, as pyproject.toml has it."""
        return self.name + self.extras + self.versions

    @property
    def install(self) -> str:
        """The command that installs it, as it can be typed into a shell."""
        return f"pip install {shlex.quote(self.requirement)}"


TVM = Package("apache-tvm", "==0.27.0.post1", "Compiling a model", (CompileError, "compile.tvm"))
FFI = Package(
    "apache-tvm-ffi", "==0.1.14.post1", "Running on the CPU", (DeviceError, "device.runtime")
)
WGPU = Package("wgpu", ">=0.32,<0.33", "Running WebGPU programs", (DeviceError, "device.wgpu"))
NVRTC, NVFATBIN = (
    Package(name, ">=12.8,<13", "Compiling for CUDA", (CompileError, "compile.nvrtc"))
    for name in ("nvidia-cuda-nvrtc-cu12", "nvidia-nvfatbin-cu12")
)
VULKAN = Package("vulkan", "==1.3.275.1", "Running Vulkan programs", (DeviceError, "device.vulkan"))
CRYPTOGRAPHY = Package(
    "cryptography", ">=44,<100", "Making a certificate", (InputError, "serve.tls")
)
LLAMA_CPP = Package(
    "llama-cpp-python",
    "",
    "Scoring a GGUF file as it is",
    (UnsupportedError, "unsupported.llama_cpp"),
)
RAY = Package(
    "ray",
    ">=2.60,<2.61",
    "Running on Ray",
    (UnsupportedError, "unsupported.ray"),
    extras="[data,serve]",
)
TORCH, TRANSFORMERS = (
    Package(name, "", "Comparing with transformers", (UnsupportedError, "unsupported.transformers"))
    for name in ("torch", "transformers")
)
ZIG = Package(
    "ziglang",
    ">=0.17,<0.18",
    "Compiling for another kind of machine",
    (CompileError, "compile.linker"),
)

OPTIONAL = (CRYPTOGRAPHY, LLAMA_CPP, NVFATBIN, NVRTC, RAY, TORCH, TRANSFORMERS, ZIG)
"""Those that one command needs for one thing, for which it asks then."""


def need(package: Package) -> None:
    """Do nothing where a package is there, and otherwise say what to install.

    Of a package with an exact version others count as missing: they are known to crash.

    Raises:
        EdgewiseError: the package's own.
    """
    message = f"{package.purpose} needs the package {package.name}, which is not installed."
    exact = package.versions.removeprefix("==")
    with suppress(PackageNotFoundError):
        found = version(package.name)
        if exact == package.versions or found == exact:
            return
        message = f"{package.purpose} needs {package.name} {exact}, and {found} is installed."
    error, code = package.error
    raise error(message, remedy=f"Install it: {package.install}", code=code)


def distributions() -> list[str]:
    """Which of ours are installed: one, or none where sources are run as they lie there."""
    found: list[str] = []
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            version(name)
            found.append(name)
    return found


def requirements() -> list[str]:
    """What the installed distribution cannot do without, each as pyproject.toml has it."""
    lines = [line for name in distributions() for line in requires(name) or []]
    return [line for line in dict.fromkeys(lines) if "extra ==" not in line]


def required(line: str) -> Package:
    """The package in one of `requirements`, as it is known here or else as edgewise needs it."""
    wanted = line.partition(";")[0].strip()
    name = re.split(r"[<>=!~ ]", wanted, maxsplit=1)[0]
    known = {package.name: package for package in (TVM, FFI, *OPTIONAL)}
    plain = Package(name, wanted.removeprefix(name), "edgewise", (EdgewiseError, "install"))
    return known.get(name, plain)
