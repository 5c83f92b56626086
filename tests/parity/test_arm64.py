"""Programs that were compiled here for 64-bit ARM, run by QEMU, give the bits of those of this CPU.

The interpreter is the one of tools/ensure_arm64.sh, and the runtime that it runs is edgewise's own:
what is emulated are the instructions. Nothing here runs what is made for Macs.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_runtime.format.bundle import read_manifest
from tests.conftest import BUILD, BundleFactory

Array = npt.NDArray[Any]

pytestmark = pytest.mark.full

CASE = "qwen3-gqa2-tied"
ARM = BUILD / "arm64/python"
ZIG = BUILD / "cross"
ROOT = BUILD.parent
DEMO = ROOT / "examples/demo-model"
KINDS = [
    *((quant, "auto") for quant in ("f32", "q8", "q6", "q4", "fours", "fives")),
    ("q4", "int8"),
]
"""All schemes but q4k are among them: ``fours`` and ``fives`` mix theirs."""

# Of Mach-O: <mach-o/loader.h>, <mach/machine.h>.
MACH_O, ARM64 = 0xFEEDFACF, 0x0100000C
NEEDED, OWN_NAME, CODE_SIGNATURE = 0xC, 0xD, 0x1D


ANSWER = """
import json, sys
from edgewise import Engine
with Engine(sys.argv[1], threads=1) as engine:
    program = engine.program
    said = engine.generate(
        "Once upon a time", max_tokens=24, temperature=0.0, logprobs=True, top_logprobs=3
    )
print(json.dumps([program, said.token_ids, [[t.logprob, t.top] for t in said.logprobs]]))
"""

LOAD = """
import sys
from pathlib import Path
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle
try:
    CpuDevice().load(Bundle.open(Path(sys.argv[1])), sys.argv[2], load_symbols={"pages": 1})
except EdgewiseError as error:
    print(error)
"""


@pytest.fixture(scope="module", autouse=True)
def zig() -> Iterator[None]:
    """Zig, which is no part of the environment that the tests run in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ZIG)
        patch.setenv("PYTHONPATH", str(ZIG))
        yield


def run(python: Path | str, *code: str) -> str:
    """What an interpreter prints, which has edgewise's sources to import."""
    path = os.pathsep.join(str(ROOT / part) for part in ("runtime", "sdk", "."))
    done = subprocess.run(
        [str(python), *code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def computed(python: Path | str, programs: list[str], out: Path) -> dict[str, Array]:
    run(python, "-m", "tests.parity.steps", str(out), *programs)
    with np.load(out) as arrays:
        return dict(arrays)


def ids(bundle: Path, arch: str) -> list[str]:
    return [p.id for p in read_manifest(bundle).programs if p.needs.arch == arch]


@pytest.mark.parametrize(("quant", "kv"), KINDS)
def test_programs_for_arm_give_the_bits_of_this_cpu(
    quant: str, kv: str, bundles: BundleFactory, tmp_path: Path
) -> None:
    bundle = bundles(CASE, quant, "native,generic-arm64", kv=kv)
    here = computed(sys.executable, [f"{bundle}:"], tmp_path / "here.npz")
    names = ids(bundle, "aarch64")
    there = computed(ARM, [f"{bundle}:{name}" for name in names], tmp_path / "there.npz")
    assert len(names) == 2
    assert len(there) == 2 * len(here)
    for name, array in there.items():
        own = here[f"{bundle}:|{name.partition('|')[2]}"]
        assert (array.dtype, array.shape) == (own.dtype, own.shape)
        assert array.tobytes() == own.tobytes(), name


@pytest.mark.parametrize("quant", ["q4", "q4k"])
def test_the_demo_model_answers_the_same_there(quant: str, tmp_path: Path) -> None:
    bundle = compile_model(DEMO, tmp_path / "demo", quant=quant, cpu="native,generic-arm64")
    (own, *here), (name, *there) = (
        json.loads(run(python, "-c", ANSWER, str(bundle))) for python in (sys.executable, ARM)
    )
    assert here == there
    assert (own in ids(bundle, "x86_64"), name) == (True, "cpu-w4a8-neon-dotprod")


def test_programs_of_other_machines_are_refused_by_name(bundles: BundleFactory) -> None:
    bundle = bundles(CASE, "q4", "native,apple-m1")
    mac, own = ids(bundle, "aarch64")[0], ids(bundle, "x86_64")[0]
    assert f"{mac!r} needs macos, which" in run(ARM, "-c", LOAD, str(bundle), mac)
    assert f"{own!r} needs x86_64, " in run(ARM, "-c", LOAD, str(bundle), own)
    said = run(sys.executable, "-c", LOAD, str(bundle), mac)
    assert f"{mac!r} needs aarch64, dotprod, macos, which" in said


def test_a_library_for_macs_is_signed_and_asks_for_nothing_but_their_own(
    bundles: BundleFactory,
) -> None:
    bundle = bundles(CASE, "q4", "native,apple-m1")
    (program,) = (p for p in read_manifest(bundle).programs if p.id.endswith("-macos"))
    data = (bundle / str(program.library)).read_bytes()
    found = list(load_commands(data))
    assert struct.unpack_from("<II", data) == (MACH_O, ARM64)
    assert CODE_SIGNATURE in [command for command, _ in found]
    (own,) = (text_of(each) for command, each in found if command == OWN_NAME)
    assert own == "@rpath/kernels.so"
    assert {text_of(each) for command, each in found if command == NEEDED} == {
        "/usr/lib/libSystem.B.dylib"
    }
    assert str(bundle).encode() not in data


def load_commands(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The load commands of a Mach-O file, by number, each whole."""
    (count,), at = struct.unpack_from("<I", data, 16), 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        yield command, data[at : at + size]
        at += size


def text_of(command: bytes) -> str:
    """The text that a command ends with; where it begins is the command's third number."""
    return command[struct.unpack_from("<I", command, 8)[0] :].split(b"\0")[0].decode()
