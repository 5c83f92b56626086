"""`edgewise doctor`: what this machine and installation have, and what is missing."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.table import Table
from rich.text import Text

from edgewise.cache import bundles_folder
from edgewise.cli.ls import named
from edgewise.cli.output import size, stdout_console
from edgewise.devices import named_device
from edgewise_runtime.cpuid import cpu_arch, cpu_features, cpu_name, default_threads
from edgewise_runtime.devices.common import choose
from edgewise_runtime.devices.wgpu.adapter import Adapter, adapters
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import NATIVE_TARGETS, Bundle
from edgewise_runtime.limits import available_memory
from edgewise_runtime.trust import key_id, key_path, verify

COMPILERS = ("cc", "gcc", "clang")
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


@dataclass(frozen=True)
class Finding:
    """One line of the report; `grade` is ``ok``, ``warning`` or ``problem``."""

    what: str
    says: str
    grade: str = "ok"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "bundle", metavar="BUNDLE", nargs="?", help="also say which of its programs would run"
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 where one is a problem."""
    checks: list[Callable[[], list[Finding]]] = [
        _python,
        _packages,
        _cpu,
        _gpus,
        _compiler,
        _memory,
        _trust,
    ]
    findings = [finding for check in checks for finding in check()]
    if args.bundle is not None:
        findings += _bundle(named(args.bundle))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        table.add_row(Text(*_MARKS[finding.grade]), Text(finding.what), Text(finding.says))
    stdout_console().print(table)
    return 1 if any(finding.grade == "problem" for finding in findings) else 0


def _python() -> list[Finding]:
    found = f"{platform.python_version()} ({sys.executable})"
    grade = "ok" if sys.version_info >= (3, 11) else "problem"
    system = f"{platform.system()} {platform.release()}"
    return [Finding("Python", found, grade), Finding("system", system)]


def _packages() -> list[Finding]:
    """The packages edgewise depends on; exact pins are there because other versions crash."""
    findings = [Finding("edgewise", version("edgewise"))]
    for line in requires("edgewise") or []:
        if "extra ==" in line:
            continue
        name = line.split(";")[0].strip()
        pin = name.split("==")[1] if "==" in name else None
        for separator in "<>=!~ ":
            name = name.split(separator)[0]
        try:
            found = version(name)
        except PackageNotFoundError:
            findings.append(Finding(name, "not installed", "problem"))
            continue
        wrong = pin is not None and found != pin
        says = f"{found}, but edgewise needs {pin}" if wrong else found
        findings.append(Finding(name, says, "problem" if wrong else "ok"))
    return findings


def _cpu() -> list[Finding]:
    features = sorted(cpu_features())
    return [
        Finding("CPU", f"{cpu_name()}, {cpu_arch()}, {default_threads()} threads"),
        Finding("CPU features", " ".join(features) or "none known: the portable program runs"),
        _compiled_for(),
    ]


def _gpus() -> list[Finding]:
    """Every WebGPU adapter, or why there is none: none is needed to run on the CPU."""
    try:
        found = adapters()
    except EdgewiseError as error:
        return [Finding("GPUs", f"{error.message} {error.remedy}", "warning")]
    if not found:
        return [Finding("GPUs", "no Vulkan, Metal or Direct3D 12 driver", "warning")]
    return [finding for adapter in found for finding in _gpu(adapter)]


def _gpu(adapter: Adapter) -> list[Finding]:
    name = f"wgpu:{adapter.index}"
    driver = f", driver {adapter.driver}" if adapter.driver else ""
    try:
        features = WgpuDevice(adapter.index).features()
    except EdgewiseError as error:
        return [Finding(name, f"{adapter}{driver}: {error.message}", "warning")]
    limits = f"buffers up to {size(adapter.max_buffer)}, bound up to {size(adapter.max_binding)}"
    has = " ".join(sorted(features)) or "no optional features"
    return [Finding(name, f"{adapter}{driver}"), Finding(f"{name} has", f"{has}; {limits}")]


def _compiled_for() -> Finding:
    """Which program `compile` makes here; importing the compiler also shows that TVM loads."""
    try:
        from edgewise_compiler.kernels.cpu.isa import ISAS
    except Exception as error:
        return Finding("compiler", f"TVM does not load: {error}", "problem")
    available = cpu_features() | {cpu_arch()}
    fitting = [i.name for i in ISAS.values() if available.issuperset({i.arch, *i.features})]
    if not fitting:
        return Finding("compiler", f"no code path for {cpu_arch()}", "problem")
    return Finding("compiler", f"makes {fitting[0]} programs (could make: {', '.join(fitting)})")


def _compiler() -> list[Finding]:
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        says = (
            "none found: `edgewise compile` needs one to link (apt install gcc, or Xcode's tools)"
        )
        return [Finding("C compiler", says, "problem")]
    return [Finding("C compiler", found)]


def _memory() -> list[Finding]:
    free = available_memory()
    cache = bundles_folder()
    home = next(p for p in (cache, *cache.parents) if p.exists())
    return [
        Finding("memory", "unknown" if free is None else f"{size(free)} available"),
        Finding("disk", f"{size(shutil.disk_usage(home).free)} free for {cache}"),
    ]


def _trust() -> list[Finding]:
    """The key that signs what this user compiles."""
    path = key_path()
    if not path.exists():
        return [Finding("signing key", f"none yet; the first compile makes {path}")]
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        says = f"{path}, id {key_id()}"
    except (EdgewiseError, OSError) as error:
        return [Finding("signing key", str(error), "problem")]
    return [Finding("signing key", says if os.name != "posix" else f"{says}, mode {mode:04o}")]


def _bundle(folder: Path) -> list[Finding]:
    """Which of a bundle's programs would run on each device."""
    try:
        bundle = Bundle.open(folder)
    except EdgewiseError as error:
        return [Finding(str(folder), str(error), "problem")]
    names = ["cpu"]
    with suppress(EdgewiseError):  # said among the GPUs already
        names += [f"wgpu:{adapter.index}" for adapter in adapters()]
    findings = [_runs(bundle, name) for name in names]
    if all(finding.grade == "problem" for finding in findings):
        return findings
    # Not every bundle has a program for every device.
    return [replace(f, grade="ok") if f.grade == "problem" else f for f in findings]


def _runs(bundle: Bundle, name: str) -> Finding:
    """What a bundle would run on a device."""
    what = f"{bundle.name} on {name}"
    try:
        device = named_device(name)
        program = choose(bundle, None, device.features(), device.target, device.name)
    except EdgewiseError as error:
        return Finding(what, f"{error.message} {error.remedy}", "problem")
    if program.target not in NATIVE_TARGETS:
        return Finding(what, f"would run {program.id}")
    try:
        verify(bundle.manifest.files[program.library or ""].sha256, program.signature)
    except (EdgewiseError, KeyError):
        says = f"{program.id} would run only with --trust: this user did not compile it"
        return Finding(what, says, "warning")
    return Finding(what, f"would run {program.id}")
