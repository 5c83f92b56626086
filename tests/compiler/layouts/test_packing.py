"""Packing reads every tensor once, changes no code, and holds little however large the model is."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.layouts import order
from edgewise_compiler.layouts.base import Layout
from edgewise_compiler.layouts.order import padded_k, padded_rows
from edgewise_compiler.layouts.packing import layout_tensors, pack_linear, pack_weights, quantized
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.models.base import LinearSpec, ParamSpec, RotationSpec, VectorSpec
from edgewise_compiler.models.rope import RopeConfig
from edgewise_compiler.models.rotation import rope_table
from edgewise_compiler.quantize import SCHEMES, CodedRows, Split
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import CheckpointError
from tests.compiler.layouts.linears import (
    INTERLEAVED,
    PLAIN,
    SPECS,
    STACKED,
    Arrays,
    empty,
    joined,
    make_sources,
    ordered_rows,
    packed,
    rows_of,
    write_tensors,
)

ROOT = Path(__file__).parents[3]
BOTH = (CPU, GPU)
ROTATIONS = (
    RotationSpec("rope", RopeConfig(theta=1e4), 64),
    RotationSpec("rope_local", RopeConfig(theta=1e6), 32),
)
NORMS = (VectorSpec("layers.0.q_norm", "q", 64), VectorSpec("layers.0.k_norm", "k", 64))
CONTEXT = 8


@pytest.mark.parametrize("layout", BOTH, ids=lambda layout: layout.name)
@pytest.mark.parametrize("block", [1 << 18, 1 << 11], ids=["at once", "in blocks"])
def test_rows_in_two_schemes_lie_as_if_each_were_a_linear(
    layout: Layout, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "BLOCK_ELEMENTS", block)
    spec = LinearSpec("l", ("a",), (200,), 96, ("a.b",))
    split = Split(SCHEMES["q6_nl"], 128, SCHEMES["q4a"])
    tensors = make_sources(spec)
    with write_tensors(tmp_path, tensors) as reader:
        found = packed(layout, split, spec, reader)
    for name, rows, scheme in (
        ("l.0", slice(0, 128), split.first),
        ("l.1", slice(128, 200), split.rest),
    ):
        part = LinearSpec(name, ("a",), (rows.stop - rows.start,), 96, ("a.b",))
        (folder := tmp_path / name).mkdir()
        with write_tensors(
            folder, {key: values[rows] for key, values in tensors.items()}
        ) as reader:
            alone = packed(layout, scheme, part, reader)
        assert {key for key in found if key.startswith(name)} == alone.keys()
        for key, values in alone.items():
            np.testing.assert_array_equal(found[key], values)


def in_files(
    folder: Path,
    reader: WeightReader,
    params: tuple[ParamSpec, ...],
    scheme: str = "q4",
    layouts: tuple[Layout, ...] = BOTH,
) -> Mapping[str, Arrays]:
    """What the files of a bundle hold once ``params`` are packed, by layout and tensor."""
    schemes = {param.name: SCHEMES[scheme] for param in params}
    tensors = {one: layout_tensors(one, schemes, params, CONTEXT) for one in layouts}
    entries = pack_weights(folder, tensors, schemes, params, reader, lambda done, total: None)
    return {
        layout: {
            name: np.fromfile(
                folder / entry.file, entry.dtype, int(np.prod(entry.shape)), offset=entry.offset
            ).reshape(entry.shape)
            for name, entry in made.items()
        }
        for layout, made in entries.items()
    }


def test_files_hold_linears_vectors_and_a_table_for_each_rotation(tmp_path: Path) -> None:
    norms = {name: np.linspace(-1, 1, 64, dtype=np.float32) * i for i, name in enumerate("qk", 1)}
    with write_tensors(tmp_path, make_sources(STACKED) | norms) as reader:
        found = in_files(tmp_path, reader, (STACKED, *NORMS, *ROTATIONS))
        for layout in BOTH:
            for name, array in packed(layout, SCHEMES["q4"], STACKED, reader).items():
                np.testing.assert_array_equal(found[layout.name][name], array, strict=True)
    for tensors in found.values():
        for spec in ROTATIONS:
            table = rope_table(spec.rope, spec.width, CONTEXT)
            np.testing.assert_array_equal(tensors[spec.name], table)
    for norm in NORMS:
        np.testing.assert_array_equal(found["cpu"][f"{norm.name}.weight"], norms[norm.source])
    both = found["gpu"]["layers.0.qk_norm.weight"]
    np.testing.assert_array_equal(both, [norms["q"], norms["k"]])


@pytest.mark.parametrize("layouts", [(CPU,), (GPU,), BOTH], ids=["cpu", "gpu", "both"])
def test_every_row_of_every_tensor_is_read_once_for_all_layouts(
    layouts: tuple[Layout, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "BLOCK_ELEMENTS", 1)
    reads: Counter[tuple[str, int]] = Counter()

    class Counting(SafetensorsReader):
        def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
            values = super().read(name, start, stop)
            reads.update((name, row) for row in range(start, start + len(values)))
            return values

    tensors = make_sources(STACKED) | {name: np.ones(64, np.float32) for name in "qk"}
    write_tensors(tmp_path, tensors).close()
    with Counting(tmp_path) as reader:
        in_files(tmp_path, reader, (STACKED, *NORMS), layouts=layouts)
    rows = {(name, row) for name, values in tensors.items() for row in range(len(values))}
    assert reads == dict.fromkeys(rows, 1)


@pytest.mark.parametrize(
    ("quant", "bits"), [("q4", 4), ("q5", 5), ("q6", 6), ("q8", 8), ("q4a", 4), ("mxfp4", 4)]
)
@pytest.mark.parametrize("name", SPECS)
def test_codes_that_a_file_brings_lie_in_the_bundle_unchanged(
    quant: str, bits: int, name: str
) -> None:
    """Codes and scales that no quantizing makes: every code there is, scales of either sign."""
    spec, scheme = SPECS[name], SCHEMES[quant]
    rng = np.random.default_rng(bits)
    codes, numbers = {}, {}
    for source, rows in zip(spec.sources, spec.rows, strict=True):
        codes[source] = rng.integers(0, 1 << bits, (rows, padded_k(spec)), np.uint8)
        shape = rows, padded_k(spec) // 32, len(scheme.groups)
        numbers[source] = rng.standard_normal(shape).astype(np.float16)

    def source_of(source: str, start: int, stop: int) -> CodedRows:
        of_groups = {
            name: numbers[source][start:stop, :, i] for i, name in enumerate(scheme.groups)
        }
        return CodedRows(codes[source][start:stop], of_groups)

    outs = {layout: empty(layout, scheme, spec) for layout in BOTH}
    no_bias = LinearSpec(spec.name, spec.sources, spec.rows, spec.k, None, spec.interleave)
    pack_linear(scheme, no_bias, Unread(), source_of, outs)
    suffix = scheme.numbers
    ours = joined(outs[GPU], ".weight"), joined(outs[GPU], f".{suffix}").view(np.float16)
    theirs = rows_of(outs[CPU]["l.weight"]), rows_of(outs[CPU][f"l.{suffix}"])
    filled = ordered_rows(spec, {k: np.ones(len(v), bool) for k, v in codes.items()}, spec.sources)
    for words, packed_numbers in (ours, theirs):
        found = unpacked(words.reshape(padded_rows(spec), -1), bits)
        expected = ordered_rows(spec, codes, spec.sources)
        np.testing.assert_array_equal(found[filled], expected[filled])
        expected = ordered_rows(spec, numbers, spec.sources)
        np.testing.assert_array_equal(packed_numbers.reshape(expected.shape), expected)


class Unread:
    """A reader of whom nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def unpacked(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Words ``[rows, words]`` as codes, by the format's documentation."""
    if bits in (5, 6):
        runs = words.reshape(len(words), -1, {5: 5, 6: 3}[bits])
        low = unpacked(np.ascontiguousarray(runs[:, :, :-1]).reshape(len(words), -1), 4)
        return low | unpacked(np.ascontiguousarray(runs[:, :, -1]), bits - 4) << np.uint32(4)
    shifts = [byte + part for part in range(0, 8, bits) for byte in range(0, 32, 8)]
    codes = np.stack([words >> np.uint32(shift) & np.uint32((1 << bits) - 1) for shift in shifts])
    return codes.transpose(1, 2, 0).reshape(len(words), -1)


@pytest.mark.parametrize(
    ("scheme", "beyond"),
    [
        ("f16", 65536.0),
        ("q8", 8.4e6),
        ("q6", 2.2e6),
        ("q5", 1.1e6),
        ("q4", 5.3e5),
        ("q4a", 1e6),
        ("iq4_nl", 8.4e6),
    ],
)
def test_weights_beyond_a_scheme_are_refused_by_name(
    tmp_path: Path, scheme: str, beyond: float
) -> None:
    tensors = make_sources(PLAIN)
    tensors["a"][11, 5] = beyond
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError, match=r"^l \(a\): .*65504") as caught,
    ):
        packed(CPU, SCHEMES[scheme], PLAIN, reader)
    assert "f32" in caught.value.remedy


def test_a_tensor_of_another_shape_is_refused_before_it_is_read(tmp_path: Path) -> None:
    tensors = make_sources(INTERLEAVED) | {"b.b": np.ones(41, np.float32)}
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError, match=r"b\.b has shape \[41\]"),
    ):
        in_files(tmp_path, reader, (INTERLEAVED,))


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_large_linear_is_packed_in_little_memory(tmp_path: Path, scheme: str) -> None:
    spec = LinearSpec("embed", ("w",), (30_000,), 256)
    rng = np.random.default_rng(0)
    found = SCHEMES[scheme]
    outs = {layout: empty(layout, found, spec) for layout in BOTH}
    with write_tensors(tmp_path, {"w": rng.random((30_000, 256), dtype=np.float32)}) as reader:
        tracemalloc.start()
        try:
            pack_linear(found, spec, reader, quantized(found, spec, reader), outs)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10 << 20


LARGEST = 16 << 20  # bytes of the largest tensor as float32
TENSORS = 8
WINDOW = 1 << 20
SLACK = 1 << 20  # a block of rows in both layouts, and whole pages of the system's

PACK_IN_BOUNDED_MEMORY = f"""
import re, resource, sys
from pathlib import Path
import numpy as np
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.weights.safetensors import SafetensorsReader
from tests.compiler.layouts.test_packing import BOTH, CONTEXT
from edgewise_compiler.layouts import packing
from edgewise_compiler.layouts.packing import layout_tensors, pack_weights

folder = Path(sys.argv[1])
packing.WINDOW = {WINDOW}
params = tuple(LinearSpec(f"l{{i}}", (f"w{{i}}",), (4096,), 1024) for i in range({TENSORS}))
schemes = {{param.name: SCHEMES["q4"] for param in params}}
told = []
tensors = {{layout: layout_tensors(layout, schemes, params, CONTEXT) for layout in BOTH}}

def mapped(done, total):
    maps = Path("/proc/self/smaps").read_text().split("\\nVmFlags")
    ours = [one for one in maps if str(folder / "params") in one]
    held = sum(int(re.search(r"Rss:\\s+(\\d+) kB", one)[1]) << 10 for one in ours)
    assert held <= {WINDOW} + {SLACK}, f"{{held}} bytes are mapped after {{done}} of {{total}}"
    told.append((done, total, held))

with SafetensorsReader(folder) as reader:
    # What is private and writable, used or not: files mapped for sharing do not count.
    now = int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + {LARGEST},) * 2)
    pack_weights(folder, tensors, schemes, params, reader, mapped)
whole = sum(made.bytes for of_layout in tensors.values() for made in of_layout.values())
assert {{total for _, total, _ in told}} == {{whole}} and told[-1][0] == whole
assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
# Many times for each tensor, and what is written is seen to be let go of.
assert len(told) > 8 * {TENSORS} and max(held for *_, held in told) > {WINDOW} // 2
assert not told[-1][2]
try:
    np.ones({LARGEST} + (1 << 20), np.uint8)
except MemoryError:
    print("packed")
"""


def test_a_model_is_packed_in_less_memory_than_its_largest_tensor_takes(tmp_path: Path) -> None:
    """The kernel enforces it: anonymous memory may not grow by more. Of the files, a window of one
    MiB is mapped here, a fifth of what a tensor takes in both layouts."""
    values = np.random.default_rng(0).standard_normal((4096, 1024), dtype=np.float32)
    assert values.nbytes == LARGEST
    write_tensors(tmp_path, {f"w{i}": values for i in range(TENSORS)}).close()
    done = subprocess.run(
        [sys.executable, "-c", PACK_IN_BOUNDED_MEMORY, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "packed\n", done.stderr
