"""What a CPU benchmark measures: commands of engines, and the files that they run."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from checkpoint import Shape, write_checkpoint
from peers.gguf_writer import write_gguf
from protocol import Command, Driver

HERE = Path(__file__).parent
BUILD = HERE.parent / "build/bench"
COMPILER = HERE.parent / "compiler"


def checkpoint(shape: Shape, words: Iterable[str] = ()) -> Path:
    """A checkpoint of random weights, written once; see `checkpoint.vocabulary` for `words`."""
    folder = BUILD / (f"{shape.name}-words" if words else shape.name)
    if not (folder / "config.json").exists():
        print(f"writing a random {shape.name}", file=sys.stderr)
        write_checkpoint(folder, shape, words=words)
    return folder


def compiler_age() -> float:
    """When a source of the compiler was last changed: what it made before may differ."""
    return max(path.stat().st_mtime for path in COMPILER.rglob("*.py"))


def our_bundle(model: Path, bundle: Path, quant: str, *options: str) -> Path:
    """The bundle, compiled again whenever a source of the compiler is newer."""
    made = bundle / "bundle.json"
    if not made.exists() or made.stat().st_mtime < compiler_age():
        edgewise = Path(sys.executable).with_name("edgewise")
        asked = ["--target", "cpu", "--quant", quant, *options, "-o", str(bundle)]
        kept = {"EDGEWISE_KEPT_KERNELS": str(HERE.parent / "build/kernels")}
        line = [str(edgewise), "compile", str(model), *asked]
        subprocess.run(line, env={**kept, **os.environ}, check=True)
    return bundle


def our_command(shape: Shape, quant: str, threads: int) -> Command:
    """edgewise with a preset of ``--quant``."""
    bundle = our_bundle(checkpoint(shape), BUILD / f"{shape.name}-{quant}", quant)
    return Command(Path(sys.executable), HERE / "ours.py", (str(bundle), "--threads", str(threads)))


def peer_command(file: Path, prefix: Path, threads: int, *options: str) -> Command:
    """llama.cpp with a GGUF file."""
    script = HERE / "peers/llamacpp.py"
    return Command(_python(prefix), script, (str(file), "--threads", str(threads), *options))


def ik_command(file: Path, build: Path, threads: int) -> Command:
    """ik_llama.cpp with a GGUF file, by the llama-bench of a build."""
    tool = build.absolute() / "bin/llama-bench"
    arguments = (str(tool), str(file), "--threads", str(threads))
    return Command(Path(sys.executable), HERE / "peers/ik_llamacpp.py", arguments)


def peer_file(shape: Shape, prefix: Path, kind: str = "Q4_0", *, pure: bool = False) -> Path:
    """The file of a type that llama.cpp's quantizer makes of the random weights."""
    file = BUILD / f"{shape.name}-{kind}{'-pure' if pure else ''}.gguf"
    if not file.exists():
        whole = BUILD / f"{shape.name}-unquantized.gguf"
        if not whole.exists():
            write_gguf(checkpoint(shape), whole)
        quantize(prefix, whole, file, kind, pure=pure)
    return file


def quantize(prefix: Path, source: Path, target: Path, kind: str, *, pure: bool = False) -> None:
    """Has llama.cpp make ``target``, which appears whole or not at all."""
    partial = target.with_suffix(".partial")
    asked = ("--quantize", kind, *(("--pure",) if pure else ()), str(source), str(partial))
    command = Command(_python(prefix), HERE / "peers/llamacpp.py", asked)
    subprocess.run(command.line(), env=command.environment(), check=True, capture_output=True)
    partial.replace(target)


def import_llama_cpp(prefix: Path) -> None:
    """Lets this process import what a virtual environment has that ours has not."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([_python(prefix), "-c", where], check=True, capture_output=True)
    site.addsitedir(found.stdout.decode().strip())


def with_engines(
    commands: Mapping[str, Command], work: Callable[[Mapping[str, Driver]], None]
) -> None:
    """Calls ``work`` with all engines started, and ends them."""
    drivers: dict[str, Driver] = {}
    try:
        for name, command in commands.items():
            drivers[name] = Driver(command, log(name))
        work(drivers)
    finally:
        for driver in drivers.values():
            driver.close()


def log(name: str) -> Path:
    """Where an engine's last words go."""
    return BUILD / f"{name.replace(' ', '-')}.log"


def _python(prefix: Path) -> Path:
    return prefix.absolute() / "bin/python"
