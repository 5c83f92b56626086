"""`edgewise doctor`: what this machine and installation have, and what is missing."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.table import Table
from rich.text import Text

from edgewise.cache import bundles_folder
from edgewise.cli.bundles import named
from edgewise.cli.output import stdout_console
from edgewise.cli.sizes import size
from edgewise_runtime.bundle import Bundle, choose_program
from edgewise_runtime.cpuid import cpu_arch, cpu_features, cpu_name, default_threads
from edgewise_runtime.errors import EdgewiseError
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


def _compiled_for() -> Finding:
    """Which program `compile` makes here; importing the compiler also shows that TVM loads."""
    try:
        from edgewise_compiler.targets.cpu_isa import ISAS
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
    try:
        bundle = Bundle.open(folder)
        program = choose_program(bundle, cpu_features() | {cpu_arch()})
    except EdgewiseError as error:
        return [Finding(str(folder), str(error), "problem")]
    try:
        verify(bundle.manifest.files[program.library or ""].sha256, program.signature)
    except (EdgewiseError, KeyError):
        says = f"{program.id} would run only with --trust: this user did not compile it"
        return [Finding(bundle.name, says, "warning")]
    return [Finding(bundle.name, f"would run {program.id}")]
