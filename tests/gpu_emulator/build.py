"""Kernels in CUDA C and in MSL as libraries of the host: compiled by its C++ compiler, on `native`.

The text is compiled as it is, but for what C++ cannot do without: arguments and arrays become
arrays that know their length (`native/memory.h`). A launch is a function of its own behind it.
Libraries are kept in ``build/emulator`` by the sha256 of all that they are made of.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgewise_compiler.targets.gpu.shader import Shader

NATIVE = Path(__file__).parent / "native"
KEPT = Path(__file__).resolve().parents[2] / "build" / "emulator"

STACKS = 1024 * (64 << 10)
"""Bytes of the stacks of a workgroup's threads: `MOST_THREADS` and `STACK` of native/fibers.h."""

_FLAGS = (
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    # Floats are computed as the text has them.
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fvisibility=hidden",
    "-w",
)


@dataclass(frozen=True)
class Dialect:
    """How a language declares what has to know its length.

    Attributes:
        header: of native, with what the language has.
        parameter: an argument: ``const`` where it is only read, type and name.
        shared, local: arrays: indentation, type, name, length.
        launched: the function that is launched, its threads and its name.
        places: what a launch hands to arguments that say where a thread is, by their attributes.
        word: what stands before a launched function and means nothing in C++.
    """

    header: str
    parameter: re.Pattern[str]
    shared: re.Pattern[str]
    local: re.Pattern[str]
    launched: re.Pattern[str]
    places: tuple[tuple[str, str], ...] = ()
    word: str = ""


CUDA = Dialect(
    "cuda.h",
    re.compile(r"^    (const )?([\w ]+)\* __restrict__ (\w+)(?=,$|\) \{$)", re.MULTILINE),
    re.compile(r"^( *)__shared__ ([\w ]+) (\w+)\[(\d+)\];$", re.MULTILINE),
    re.compile(r"^( +)((?!const )[\w ]+) (\w+)\[(\d+)\];$", re.MULTILINE),
    re.compile(r'^extern "C" __global__ void __launch_bounds__\((\d+)\) (\w+)\($', re.MULTILINE),
)

METAL = Dialect(
    "metal.h",
    re.compile(r"^    device (const )?([\w ]+)\* (\w+) \[\[buffer\(\d+\)\]\](?=,$)", re.MULTILINE),
    re.compile(r"^( *)threadgroup ([\w ]+) (\w+)\[(\d+)\];$", re.MULTILINE),
    CUDA.local,
    re.compile(
        r"^\[\[max_total_threads_per_threadgroup\((\d+)\)\]\] kernel void (\w+)\($", re.MULTILINE
    ),
    (
        ("threadgroup_position_in_grid", "emulator::block"),
        ("thread_index_in_threadgroup", "emulator::thread.x"),
        ("threads_per_simdgroup", "emulator::LANES"),
    ),
    "kernel ",
)

_LANE = re.compile(r"\]\.([xyzw])\b")

_LAUNCH = """\

extern "C" __attribute__((visibility("default"))) int launch(
    void** data, const uint64_t* bytes, void** shadows, unsigned x, unsigned y, uint64_t seed,
    char* stacks, char* message, size_t room) {{
  auto kernel = [&] {{ {entry}({arguments}); }};
  using Kernel = decltype(kernel);
  auto body = [](const void* one) {{ (*static_cast<const Kernel*>(one))(); }};
  return emulator::run(x, y, {threads}, seed, stacks, &kernel, body, message, room);
}}
"""

_ARGUMENT = {
    True: 'emulator::Reads<{type}>{{"{name}", (const {type}*)data[{i}], '
    "uint32_t(bytes[{i}] / sizeof({type}))}}",
    False: 'emulator::Writes<{type}>{{"{name}", ({type}*)data[{i}], '
    "uint32_t(bytes[{i}] / sizeof({type})), (emulator::Shadow*)shadows[{i}]}}",
}


def cpp_text(made: Shader, dialect: Dialect = CUDA) -> str:
    """A kernel as C++ with a function ``launch``.

    Raises:
        ValueError: it declares a pointer or an array that is not understood.
    """
    source = made.source
    found = dialect.launched.findall(source)
    if found != [(str(made.workgroup[0]), made.entry)]:
        raise ValueError(f"{made.entry} is not what the text launches: {found}")
    parameters = dialect.parameter.findall(source)
    text = dialect.parameter.sub(
        lambda m: f"    emulator::{'Reads' if m[1] else 'Writes'}<{m[2]}> {m[3]}", source
    )
    text = dialect.shared.sub(r'\1static emulator::Shared<\2, \4> \3{"\3"};', text)
    text = dialect.local.sub(r'\1emulator::Local<\2, \4> \3{"\3"};', text)
    # An element is an object that tells a read from a write, and has lanes when it is read.
    text = _LANE.sub(r"].get().\1", text)
    begin = text.index(dialect.launched.search(text)[0])  # type: ignore[index]
    if "*__restrict" in text or re.search(r"\w\* \w", text[begin:]):
        raise ValueError(f"{made.entry} has a pointer that is not understood")
    arguments = ", ".join(
        _ARGUMENT[bool(constant)].format(type=kind, name=name, i=i)
        for i, (constant, kind, name) in enumerate(parameters)
    )
    if len(parameters) != len(made.access):
        raise ValueError(f"{made.entry} declares {len(parameters)} of {len(made.access)} arguments")
    told = [place for attribute, place in dialect.places if f"[[{attribute}]]" in text]
    arguments = ", ".join((arguments, *told))
    text = text.replace(f"{dialect.word}void {made.entry}(", f"void {made.entry}(")
    launch = _LAUNCH.format(entry=made.entry, arguments=arguments, threads=made.workgroup[0])
    return f'#include "{dialect.header}"\n#line 1 "{made.entry}"\n{text}#line 1 "launch"\n{launch}'


@cache
def library(made: Shader, dialect: Dialect = CUDA) -> ctypes.CDLL:
    """The library of a kernel, compiled where it is not kept."""
    text = cpp_text(made, dialect)
    key = hashlib.sha256("\0".join((text, *_compiler(), *_headers())).encode()).hexdigest()
    path = KEPT / f"{key}.so"
    if not path.exists():
        _compile(text, path)
    return ctypes.CDLL(str(path))


def _compile(text: str, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    _, *command = _compiler()
    call = [*command, f"-I{NATIVE}", "-x", "c++", "-", "-o", str(temporary)]
    done = subprocess.run(call, input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        temporary.unlink(missing_ok=True)
        raise ValueError(f"The host's compiler refuses a kernel:\n{done.stderr[:4000]}")
    os.replace(temporary, path)


@cache
def _compiler() -> tuple[str, ...]:
    """What the compiler calls itself, and how it is called."""
    command = os.environ.get("CXX", "g++")
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    return (version.stdout.splitlines()[0], command, *_FLAGS, *_instructions())


def _instructions() -> tuple[str, ...]:
    """Instructions that make fused operations and float16 quick; a library has them otherwise."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii").split()
    except OSError:
        return ()
    return tuple(f"-m{name}" for name in ("fma", "f16c") if name in flags)


@cache
def _headers() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in sorted(NATIVE.glob("*.h")))
