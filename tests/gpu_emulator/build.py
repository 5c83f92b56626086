"""Kernels in CUDA C and in MSL as libraries: compiled by the C++ compiler of the host on `native`.

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
from edgewise_compiler.targets.kept import trim

NATIVE = Path(__file__).parent / "native"
KEPT = Path(__file__).resolve().parents[2] / "build" / "emulator"

LIMIT = 256 << 20
"""Bytes of libraries that are kept; beyond them what was not used for longest is removed."""

STACKS = 1024 * (64 << 10)
"""Bytes of the stacks of a workgroup's threads: `MOST_THREADS` and `STACK` of native/fibers.h."""

_FLAGS = (
    "-std=c++17",
    "-O1",
    # Of kernels with many registers it took GCC 12 ten seconds, and of one eight minutes.
    "-fno-tree-loop-im",
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
        parameter: an argument: ``const`` where it is only read, ``type`` and ``name``.
        shared, local: arrays: ``indent``, ``type``, ``name`` and ``count``.
        launched: the function that is launched: its ``threads`` and its name, ``entry``.
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
    re.compile(
        r"^    (?P<const>const )?(?P<type>[\w ]+)\* __restrict__ (?P<name>\w+)(?=,$|\) \{$)", re.M
    ),
    re.compile(
        r"^(?P<indent> *)__shared__ (?P<type>[\w ]+) (?P<name>\w+)\[(?P<count>\d+)\];$", re.M
    ),
    re.compile(
        r"^(?P<indent> +)(?!const )(?P<type>[\w ]+) (?P<name>\w+)\[(?P<count>\d+)\];$", re.M
    ),
    re.compile(
        r'^extern "C" __global__ void __launch_bounds__\((?P<threads>\d+)\) (?P<entry>\w+)\($', re.M
    ),
)

METAL = Dialect(
    "metal.h",
    re.compile(
        r"^    device (?P<const>const )?(?P<type>[\w ]+)\* (?P<name>\w+) "
        r"\[\[buffer\(\d+\)\]\](?=,$)",
        re.M,
    ),
    re.compile(
        r"^(?P<indent> *)threadgroup (?P<type>[\w ]+) (?P<name>\w+)\[(?P<count>\d+)\];$", re.M
    ),
    CUDA.local,
    re.compile(
        r"^\[\[max_total_threads_per_threadgroup\((?P<threads>\d+)\)\]\] "
        r"kernel void (?P<entry>\w+)\($",
        re.M,
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
  auto thread = [&] {{ ::{entry}({arguments}); }};
  auto body = [](const void* one) {{ (*static_cast<const decltype(thread)*>(one))(); }};
  return emulator::run(x, y, {threads}, seed, stacks, &thread, body, message, room);
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
    launched, said = [*dialect.launched.finditer(source)], shader_of(source, dialect)
    same = (said.entry, said.workgroup, said.access) == (made.entry, made.workgroup, made.access)
    if len(launched) != 1 or not same:
        raise ValueError(f"{made.entry} is not what the text launches")
    parameters = _arguments(source, dialect)
    head, body = source[: launched[0].end()], source[launched[0].end() :]
    text = dialect.parameter.sub(
        lambda m: f"    emulator::{'Reads' if m['const'] else 'Writes'}<{m['type']}> {m['name']}",
        body,
    )
    text = dialect.shared.sub(
        r'\g<indent>static emulator::Shared<\g<type>, \g<count>> \g<name>{"\g<name>"};', text
    )
    text = dialect.local.sub(
        r'\g<indent>emulator::Local<\g<type>, \g<count>> \g<name>{"\g<name>"};', text
    )
    # An element is an object that tells a read from a write, and has lanes when it is read.
    text = _LANE.sub(r"].get().\1", text)
    if re.search(r"\w\* \w", text):
        raise ValueError(f"{made.entry} has a pointer that is not understood")
    arguments = [
        _ARGUMENT[bool(constant)].format(type=kind, name=name, i=i)
        for i, (constant, kind, name) in enumerate(parameters)
    ]
    arguments += [place for attribute, place in dialect.places if f"[[{attribute}]]" in text]
    head = head.replace(f"{dialect.word}void {made.entry}(", f"void {made.entry}(")
    launch = _LAUNCH.format(
        entry=made.entry, arguments=", ".join(arguments), threads=made.workgroup[0]
    )
    kernel = f'#line 1 "{made.entry}"\n{head}{text}'
    return f'#include "{dialect.header}"\n{kernel}#line 1 "launch"\n{launch}'


def shader_of(text: str, dialect: Dialect = CUDA) -> Shader:
    """A kernel from its text alone.

    Raises:
        ValueError: there is no kernel in it.
    """
    launched = dialect.launched.search(text)
    if launched is None:
        raise ValueError("no function in the text is launched")
    access = ("read" if constant else "read_write" for constant, *_ in _arguments(text, dialect))
    return Shader(text, launched["entry"], (int(launched["threads"]), 1, 1), tuple(access))


def _arguments(text: str, dialect: Dialect) -> list[tuple[str, str, str]]:
    """Of each argument whether it is only read, its type and its name."""
    found = dialect.parameter.finditer(text)
    return [(match["const"] or "", match["type"], match["name"]) for match in found]


@cache
def library(made: Shader, dialect: Dialect = CUDA) -> ctypes.CDLL:
    """The library of a kernel, compiled where it is not kept."""
    return ctypes.CDLL(str(library_path(made, dialect)))


def library_path(made: Shader, dialect: Dialect = CUDA) -> Path:
    """Where the library of a kernel is, compiled where it is not kept."""
    text = cpp_text(made, dialect)
    key = hashlib.sha256("\0".join((text, *_compiler(), *_headers())).encode()).hexdigest()
    path = KEPT / f"{key}.so"
    try:
        os.utime(path)
    except FileNotFoundError:
        _compile(text, path)
        trim(KEPT, LIMIT)
    return path


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
