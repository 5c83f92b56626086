"""Tensors, and places of tensors, beyond 2^31 and 2^32 bytes: files that are holes for the most."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

from edgewise_compiler.gguf.codes import HELD
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.weights.safetensors import INDEX, SINGLE, SafetensorsReader
from edgewise_runtime.errors import CheckpointError

WIDTH = 4096
ROWS = (1 << 20) + 3
"""Of float16 in so many rows there are more than 2^32, in more than 2^33 bytes."""

Floats = NDArray[np.float32]
LAST: Floats = np.arange(3 * WIDTH, dtype=np.float32).reshape(3, WIDTH) % 1000
AFTER: Floats = np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 32)
SIZES = {"table": ("F16", (ROWS, WIDTH)), "after": ("F32", AFTER.shape)}


def write_holes(path: Path, header: bytes, size: int, places: Mapping[int, bytes]) -> None:
    """A file of ``size`` bytes, of which only the header and what is at ``places`` are written."""
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
        for at, data in places.items():
            file.seek(at)
            file.write(data)
    assert path.stat().st_blocks * 512 < 1 << 20, "the file system of this folder has no holes"


def write_safetensors(path: Path, names: tuple[str, ...]) -> None:
    table, ends, end = {}, {}, 0
    for name in names:
        dtype, shape = SIZES[name]
        begin, end = end, end + prod(shape) * (2 if dtype == "F16" else 4)
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        ends[name] = end
    text = json.dumps(table).encode()
    start = 8 + len(text)
    data = {"table": LAST.astype(np.float16).tobytes(), "after": AFTER.tobytes()}
    places = {start + ends[name] - len(data[name]): data[name] for name in names}
    write_holes(path, len(text).to_bytes(8, "little") + text, start + end, places)


def check(reader: SafetensorsReader | GgufReader, rows: int, stored: int) -> None:
    assert reader.shape("table") == (rows, WIDTH)
    assert reader.size("table") == stored
    np.testing.assert_array_equal(reader.read("table", rows - 3), LAST)
    middle = reader.read("table", rows // 2, rows // 2 + 2)
    assert middle.shape == (2, WIDTH)
    assert not middle.any()
    np.testing.assert_array_equal(reader.read("after"), AFTER)
    with pytest.raises(CheckpointError, match=f"it has {rows}"):
        reader.read("table", rows, rows + 1)


def test_safetensors_are_read_at_the_end_of_eight_gigabytes(tmp_path: Path) -> None:
    write_safetensors(tmp_path / SINGLE, ("table", "after"))
    with SafetensorsReader(tmp_path) as reader:
        check(reader, ROWS, 2 * ROWS * WIDTH)


def test_shards_are_read_at_the_end_of_eight_gigabytes(tmp_path: Path) -> None:
    for name in SIZES:
        write_safetensors(tmp_path / f"{name}.safetensors", (name,))
    (tmp_path / INDEX).write_text(
        json.dumps({"weight_map": {name: f"{name}.safetensors" for name in SIZES}})
    )
    with SafetensorsReader(tmp_path) as reader:
        check(reader, ROWS, 2 * ROWS * WIDTH)


def test_a_file_that_ends_before_its_eight_gigabytes_is_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / SINGLE, ("table", "after"))
    path = tmp_path / SINGLE
    with path.open("r+b") as file:
        # What is left of the size in 32 bits.
        file.truncate(path.stat().st_size % (1 << 32))
    with pytest.raises(CheckpointError, match="is damaged"):
        SafetensorsReader(tmp_path)


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_gguf_is_read_beyond_four_gigabytes(kind: str, tmp_path: Path) -> None:
    stored_as = GGMLQuantizationType[kind]
    rows = LAST.astype(np.float16) if kind == "F16" else quantize(LAST, stored_as)
    size = ROWS * rows.nbytes // len(LAST)
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tensor_info("table", (ROWS, rows.shape[1]), rows.dtype, size, stored_as)
    writer.add_tensor_info("after", AFTER.shape, AFTER.dtype, AFTER.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header = path.read_bytes()
    header += bytes(-len(header) % 32)
    begin = len(header) + size + -size % 32
    places = {len(header) + size - rows.nbytes: rows.tobytes(), begin: AFTER.tobytes()}
    write_holes(path, header, begin + AFTER.nbytes, places)
    with GgufReader(path) as reader:
        if kind == "F16":
            check(reader, ROWS, size)
            return
        assert reader.size("table") == size > 1 << 32
        np.testing.assert_array_equal(reader.read("after"), AFTER)
        unpack = HELD[kind]["q8"]
        assert unpack is not None
        coded = reader.codes(unpack, "table", ROWS - 4, ROWS)
        assert not coded.groups["scale"][0].any()
        scales = coded.groups["scale"].astype(np.float32).repeat(32, axis=1)
        near = (coded.codes.astype(np.float32) - 128) * scales
        np.testing.assert_allclose(near[1:], LAST, atol=4)
