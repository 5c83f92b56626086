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
from importlib.metadata import version
from pathlib import Path

from rich.table import Table
from rich.text import Text

from edgewise.cache import bundles_folder
from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.server.assets import BUILD, built
from edgewise.units import size
from edgewise_runtime import installed
from edgewise_runtime.cpuid import cpu_arch, cpu_features
from edgewise_runtime.devices.common import choose
from edgewise_runtime.devices.table import DEVICES, Found, Kind, named_device
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.limits import available_memory
from edgewise_runtime.trust import key_id, key_path, verify_program

_MARKS = {
    "ok": ("✓", "green"),
    "absent": ("–", "dim"),
    "warning": ("!", "yellow"),
    "problem": ("✗", "red"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report; `grade` is a name of `_MARKS`."""

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
        _devices,
        _compiler,
        _app,
        _optional,
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
    names = " and ".join(installed.distributions())
    required = [installed.required(line) for line in installed.requirements()]
    return [
        Finding(names or "edgewise", installed.VERSION),
        *(_package(package, "problem") for package in required),
    ]


def _package(package: installed.Package, grade: str) -> Finding:
    """Which version is there, or what a command that needs it says; `grade` is for that."""
    try:
        installed.need(package)
    except EdgewiseError as error:
        return Finding(package.name, error.said, grade)
    return Finding(package.name, version(package.name))


def _devices() -> list[Finding]:
    """Every device of every kind, or why there is none: a bundle needs only one that suits it."""
    findings: list[Finding] = []
    for kind in DEVICES.values():
        try:
            found = kind.entry.find()
        except EdgewiseError as error:
            findings.append(Finding(kind.title, error.said, "warning"))
        else:
            findings += [line for device in found for line in _device(kind, device)]
    return findings


def _device(kind: Kind, found: Found) -> list[Finding]:
    name = found.name if kind.several else kind.title
    if found.trouble:
        return [Finding(name, f"{found.about}: {found.trouble}", "warning")]
    features = " ".join(sorted(found.features)) or "no optional features"
    limits = ", ".join(f"{what} {size(most)}" for what, most in found.limits.items())
    has = "; ".join(part for part in (features, limits) if part)
    return [Finding(name, found.about), Finding(f"{name} has", has)]


def _compiler() -> list[Finding]:
    """Which program `compile` makes here, whether TVM loads, and what links."""
    try:
        installed.need(installed.TVM)
    except EdgewiseError as error:
        return [Finding("compiler", error.said, "warning")]
    return [_compiled_for(), _linker()]


def _compiled_for() -> Finding:
    from edgewise_compiler.kernels.cpu.isa import ISAS

    available = cpu_features() | {cpu_arch()}
    fitting = [i for i in ISAS.values() if available.issuperset({i.arch, *i.features})]
    if not fitting:
        return Finding("compiler", f"no code path for {cpu_arch()}", "problem")
    try:
        fitting[0].target()
    except Exception as error:
        return Finding("compiler", f"TVM does not load: {error}", "problem")
    names = [isa.name for isa in fitting]
    return Finding("compiler", f"makes {names[0]} programs (could make: {', '.join(names)})")


def _linker() -> Finding:
    from edgewise_compiler.targets.cpu.linker import find_linker

    try:
        return Finding("C compiler", " ".join(find_linker()))
    except EdgewiseError as error:
        return Finding("C compiler", error.said, "problem")


def _app() -> list[Finding]:
    """What `edgewise serve` hands out besides bundles."""
    if built():
        return [Finding("chat app", "built")]
    return [Finding("chat app", f"not built: {BUILD}", "warning")]


def _optional() -> list[Finding]:
    """Packages that a command asks for when it needs them, but for those that are required here."""
    required = {installed.required(line).name for line in installed.requirements()}
    return [_package(p, "absent") for p in installed.OPTIONAL if p.name not in required]


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
    names: list[str] = []
    for kind in DEVICES.values():
        with suppress(EdgewiseError):  # said among the devices already
            names += [device.name for device in kind.entry.find()]
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
        return Finding(what, error.said, "problem")
    try:
        verify_program(bundle.manifest, program)
    except EdgewiseError:
        says = f"{program.id} would run only with --trust: this user did not compile it"
        return Finding(what, says, "warning")
    return Finding(what, f"would run {program.id}")
