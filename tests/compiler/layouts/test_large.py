"""Packed tensors of more than 2^31 bytes, and of more than 2^31 elements: what is put at their end
lies there, and kernels read it. Files and memory are holes: what is touched is a few rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.cpu.elementwise.embed import embed
from edgewise_compiler.kernels.cpu.matmul.floats import matmul_float
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.layouts import shards
from edgewise_compiler.layouts.base import Layout
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.rows import GPU, MAX_BINDING, linear_parts, take_rows
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES, CodedRows
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, aligned, aligned_copy, build, virtual

WIDTH = 4096
ROWS = (1 << 19) + 32
"""Of bytes there are more than 2^31 in so many rows, of float16 as many elements."""

SPEC = LinearSpec("embed", ("w",), (ROWS,), WIDTH)
LAST = 32  # rows that are put at the end


def last_rows(scheme: str) -> CodedRows:
    values = np.random.default_rng(4).standard_normal((LAST, WIDTH), dtype=np.float32)
    return SCHEMES[scheme].quantize(values)


def sparse_shards(folder: Path, layout: Layout, patch: pytest.MonkeyPatch) -> shards.Shards:
    """The files of a linear; on a disk that reserves by leaving a hole."""
    patch.setattr(shards.os, "posix_fallocate", lambda fd, at, size: os.truncate(fd, at + size))
    schemes = {SPEC.name: SCHEMES["q8"]}
    return shards.make_shards(folder, layout.name, layout_tensors(layout, schemes, [SPEC], 8))


@pytest.mark.parametrize("layout", [CPU, GPU], ids=["cpu", "gpu"])
def test_rows_are_put_at_the_end_of_more_than_2_31_bytes(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, rows = sparse_shards(tmp_path, layout, monkeypatch), last_rows("q8")
    weights = {name: e for name, e in files.entries.items() if name.endswith(".weight")}
    assert sum(entry.bytes for entry in weights.values()) == ROWS * WIDTH > 1 << 31
    names = [*files.entries]
    with files.mapped(names) as out:
        layout.put_rows(SCHEMES["q8"], SPEC, ROWS - LAST, rows, out)
    if layout is CPU:
        # By the format: panels of 16 rows, of which each element is beside the others' of its row.
        (entry,) = weights.values()
        panel = WIDTH * 16
        path, end = tmp_path / entry.file, entry.offset + entry.bytes
        words = np.fromfile(path, np.uint32, LAST * WIDTH // 4, offset=end - LAST * WIDTH)
        found = words.reshape(-1, panel // 64, 16).transpose(0, 2, 1).reshape(LAST, -1)
        np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint8), rows.codes)
        before = np.fromfile(path, np.uint8, panel, offset=end - LAST * WIDTH - panel)
        assert not before.any()
        return
    parts = linear_parts(SCHEMES["q8"], SPEC)
    assert len(parts) > 16
    assert max(entry.bytes for entry in files.entries.values()) <= MAX_BINDING
    with files.mapped(names) as out:
        found_rows = take_rows(SCHEMES["q8"], SPEC, ROWS - LAST - 1, ROWS, out)
    np.testing.assert_array_equal(found_rows.codes[1:], rows.codes)
    np.testing.assert_array_equal(found_rows.groups["scale"][1:], rows.groups["scale"])
    assert not found_rows.codes[0].any()


def packed_at_the_end(scheme: str) -> tuple[Mapping[str, NDArray[Any]], CodedRows]:
    rows = last_rows(scheme)
    made = CPU.tensors(SCHEMES[scheme], SPEC)
    out = {name: virtual(spec.shape, spec.dtype) for name, spec in made.items()}
    CPU.put_rows(SCHEMES[scheme], SPEC, ROWS - LAST, rows, out)
    return out, rows


@pytest.mark.parametrize("scheme", ["q8", "f16"])
def test_a_table_of_more_than_2_31_bytes_is_looked_up_at_its_end(scheme: str) -> None:
    packed, rows = packed_at_the_end(scheme)
    tokens = aligned_copy(np.array([ROWS - 1, 0, ROWS - LAST], np.int32))
    x, step = aligned((3, WIDTH), "float32"), aligned_copy(step_array(3, 0, 0, 0))
    kernel = next(iter(build([embed(scheme, 3, WIDTH, ROWS, RUNNABLE[0])], RUNNABLE[0]).values()))
    kernel(tokens, *packed.values(), x, step)
    values = SCHEMES[scheme].dequantize(rows)
    np.testing.assert_array_equal(x[0], values[-1])
    np.testing.assert_array_equal(x[2], values[0])
    if scheme == "f16":
        assert not x[1].any()


@pytest.mark.parametrize("scheme", ["q8", pytest.param("f16", marks=pytest.mark.full)])
def test_a_head_of_more_than_2_31_bytes_gives_its_last_logits(scheme: str) -> None:
    """Of float16 these are more than 2^31 elements, which are counted in 64 bits."""
    packed, rows = packed_at_the_end(scheme)
    x = np.random.default_rng(5).standard_normal((1, WIDTH), dtype=np.float32)
    out, step = aligned((1, ROWS), "float32"), aligned_copy(step_array(1, 0, 0, 0))
    spec, isa = MatmulSpec(1, ROWS, WIDTH, scheme), RUNNABLE[0]
    if scheme == "q8":
        kernel, given = matmul_int(spec, isa), [*map(aligned_copy, reference.quantize(x))]
    else:
        kernel, given = matmul_float(spec, isa), [aligned_copy(x)]
    next(iter(build([kernel], isa).values()))(*given, *packed.values(), out, step)
    values = SCHEMES[scheme].dequantize(rows)
    near = given[0].astype(np.float32)
    if scheme == "q8":
        near *= given[1].repeat(32, axis=1)
    np.testing.assert_allclose(out[0, -LAST:], (near @ values.T)[0], rtol=1e-4, atol=1e-3)
    assert not out[0, :-LAST].any()
