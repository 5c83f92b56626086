"""Safetensors are read exactly and in pieces; a damaged file is an EdgewiseError, not a crash."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from edgewise_compiler.weights.header import MAX_HEADER
from edgewise_compiler.weights.safetensors import INDEX, SINGLE, SafetensorsReader
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.parity.storing import write_safetensors


def random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write_raw(folder: Path, header: object, data: bytes, length: int | None = None) -> None:
    """A file whose header is ``header`` (JSON unless bytes) and claims ``length`` bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    (folder / SINGLE).write_bytes(size.to_bytes(8, "little") + text + data)


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def opening_fails(folder: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        SafetensorsReader(folder)
    assert caught.value.remedy
    assert len(caught.value.message) < 500
    return caught.value


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_float_type_is_widened_without_loss(tmp_path: Path, dtype: Any) -> None:
    values = random((5, 7)).astype(dtype)
    values[0, :3] = np.array([0.0, -0.0, 1e-7]).astype(dtype)
    save_file({"w": values}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader:
        read = reader.read("w")
        assert (reader.names(), reader.shape("w")) == (("w",), (5, 7))
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read.view(np.uint32), values.astype(np.float32).view(np.uint32))


def test_rows_are_read_alone(tmp_path: Path) -> None:
    tensors = {"a": random((3, 4), 1), "b": random((64, 3, 2), 2), "c": random((9,), 3)}
    save_file(tensors, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader:
        for name, values in tensors.items():
            np.testing.assert_array_equal(reader.read(name), values)
        np.testing.assert_array_equal(reader.read("b", 10, 17), tensors["b"][10:17])
        np.testing.assert_array_equal(reader.read("c", 8), tensors["c"][8:])
        assert reader.read("a", 2, 2).shape == (0, 4)


def test_reading_rows_takes_memory_for_those_rows(tmp_path: Path) -> None:
    save_file({"w": random((4096, 1024))}, tmp_path / SINGLE)
    tracemalloc.start()
    try:
        with SafetensorsReader(tmp_path) as reader:
            for start in range(0, 4096, 64):
                reader.read("w", start, start + 64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_shards_are_one_set_of_tensors(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": random((4, 4), i) for i in range(5)}
    save_file({n: tensors[n] for n in ("layer.0", "layer.3")}, tmp_path / "a.safetensors")
    save_file(
        {n: tensors[n] for n in ("layer.1", "layer.2", "layer.4")}, tmp_path / "b.safetensors"
    )
    write_index(
        tmp_path, {n: "a.safetensors" if n[-1] in "03" else "b.safetensors" for n in tensors}
    )
    with SafetensorsReader(tmp_path) as reader:
        assert set(reader.names()) == set(tensors)
        for name, values in tensors.items():
            np.testing.assert_array_equal(reader.read(name), values)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_with_its_place(tmp_path: Path, value: float) -> None:
    values = random((40, 6))
    values[33, 2] = value
    save_file({"model.norm": values}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader:
        reader.read("model.norm", 0, 33)
        with pytest.raises(
            CheckpointError, match=rf"'model.norm' holds {value} at index \[33, 2\]"
        ):
            reader.read("model.norm", 30, 40)


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 2), (3, 2), (0, 5), (5, None)], ids=lambda rows: str(rows)
)
def test_rows_out_of_range_are_refused(tmp_path: Path, start: int, stop: int | None) -> None:
    save_file({"w": random((4, 2))}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader, pytest.raises(CheckpointError, match="it has 4"):
        reader.read("w", start, stop)


def test_a_tensor_that_is_not_there_is_named(tmp_path: Path) -> None:
    save_file({"w": random((4, 2))}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader:
        for ask in (reader.read, reader.shape, reader.dtype):
            with pytest.raises(CheckpointError, match="no tensor 'v'"):
                ask("v")


@pytest.mark.parametrize("dtype", [np.int8, np.float64, np.uint8])
def test_tensors_that_are_no_plain_floats_open_but_do_not_read(tmp_path: Path, dtype: Any) -> None:
    save_file({"w": np.ones((2, 2), dtype)}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader, pytest.raises(UnsupportedError, match="stored as"):
        reader.read("w")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 1 << 40)])
def test_a_tensor_without_rows_is_refused_when_read(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = b"\0" * 4 if shape == () else b""
    write_safetensors(tmp_path / SINGLE, {"w": ("F32", shape, data)})
    with SafetensorsReader(tmp_path) as reader, pytest.raises(CheckpointError, match="no rows"):
        reader.read("w")


GOOD = entry("F32", [2, 2], 0, 16)


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"[]", b"", "instead of an object"),
        (b"{ ", b"}" * 9, "JSON"),
        (b"\xff\xff\xff", b"", "JSON"),
        (b"[" * 100_000, b"", "JSON"),
        (b'{"w":1,"w":2}', b"", "twice"),
        ({"w": []}, b"", "'w'"),
        ({"w": GOOD | {"more": 1}}, bytes(16), "'w'"),
        ({"w": {"dtype": "F32", "shape": [2]}}, b"", "'w'"),
        ({"w": GOOD | {"dtype": "F31"}}, bytes(16), "'F31'"),
        ({"w": GOOD | {"dtype": ["F32"]}}, bytes(16), "dtype"),
        ({"w": GOOD | {"shape": 4}}, bytes(16), "shape 4"),
        ({"w": GOOD | {"shape": [-2, -2]}}, bytes(16), "-2"),
        ({"w": GOOD | {"shape": [2.0, 2]}}, bytes(16), "2.0"),
        ({"w": GOOD | {"shape": [True, 4]}}, bytes(16), "True"),
        ({"w": GOOD | {"shape": [1] * 9 + [4]}}, bytes(16), "shape"),
        ({"w": GOOD | {"shape": [1 << 62, 1 << 62]}}, bytes(16), "shape"),
        ({"w": GOOD | {"shape": [2, 3]}}, bytes(16), "has 16 bytes"),
        ({"w": GOOD | {"data_offsets": [0, 16, 16]}}, bytes(16), "data_offsets"),
        ({"w": GOOD | {"data_offsets": [16, 0]}}, bytes(16), "data_offsets"),
        ({"w": GOOD | {"data_offsets": [-16, 0]}}, bytes(16), "data_offsets"),
        ({"w": GOOD | {"data_offsets": ["0", "16"]}}, bytes(16), "data_offsets"),
        ({"w": GOOD | {"data_offsets": [4, 20]}}, bytes(20), "gap"),
        ({"v": GOOD, "w": GOOD}, bytes(16), "overlaps"),
        ({"v": GOOD, "w": entry("F32", [2, 2], 8, 24)}, bytes(24), "overlaps"),
        ({"w": GOOD}, bytes(15), "end at byte"),
        ({"w": GOOD}, bytes(17), "end at byte"),
        ({"w": GOOD, "__metadata__": {"a": 1}}, bytes(16), "metadata"),
        ({"w": GOOD, "__metadata__": []}, bytes(16), "metadata"),
    ],
)
def test_a_header_the_format_forbids_is_refused(
    tmp_path: Path, header: object, data: bytes, words: str
) -> None:
    write_raw(tmp_path, header, data)
    error = opening_fails(tmp_path)
    assert words in error.message
    assert SINGLE in error.message


@pytest.mark.parametrize("length", [0, 1, 1000, MAX_HEADER + 1, 1 << 63, (1 << 64) - 1])
def test_a_header_size_that_cannot_be_is_refused_before_reading(
    tmp_path: Path, length: int
) -> None:
    write_raw(tmp_path, {"w": GOOD}, bytes(16), length)
    assert str(length) in opening_fails(tmp_path).message


@pytest.mark.parametrize("size", range(10))
def test_a_file_too_short_for_a_header_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / SINGLE).write_bytes(b"\x02" + bytes(size))
    opening_fails(tmp_path)


def test_a_file_that_shrinks_while_open_is_an_error(tmp_path: Path) -> None:
    save_file({"w": random((64, 64))}, tmp_path / SINGLE)
    with SafetensorsReader(tmp_path) as reader:
        with (tmp_path / SINGLE).open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(CheckpointError, match="middle of a tensor"):
            reader.read("w")


@pytest.mark.parametrize(
    "shard",
    [
        "../a.safetensors",
        "/etc/a.safetensors",
        "x\\a.safetensors",
        "C:a.safetensors",
        ".safetensors/..",
        "a.bin",
        "",
        3,
        "x" * 250 + ".safetensors",
    ],
)
def test_an_index_with_paths_is_refused(tmp_path: Path, shard: object) -> None:
    save_file({"w": random((2, 2))}, tmp_path / "a.safetensors")
    write_index(tmp_path, {"w": shard})
    assert "no file name" in opening_fails(tmp_path).message


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {}}', '{"weight_map": 3}', "{"])
def test_an_index_without_a_map_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / INDEX).write_text(content)
    assert INDEX in opening_fails(tmp_path).message


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"w": "a.safetensors"}, "also holds 'v'"),
        ({"w": "a.safetensors", "v": "a.safetensors", "u": "a.safetensors"}, "lacks 'u'"),
        ({"w": "missing.safetensors"}, "'missing.safetensors'"),
        ({"v": "a.safetensors", "w": "b.safetensors"}, "also holds"),
    ],
)
def test_an_index_that_disagrees_with_its_shards_is_refused(
    tmp_path: Path, weight_map: dict[str, str], words: str
) -> None:
    for shard in ("a", "b"):
        save_file({n: random((2, 2)) for n in ("v", "w")}, tmp_path / f"{shard}.safetensors")
    write_index(tmp_path, weight_map)
    assert words in opening_fails(tmp_path).message


@pytest.mark.parametrize("file", ["model.gguf", "pytorch_model.bin", "adapter.safetensors"])
def test_weights_in_another_form_are_named(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"GGUF")
    with pytest.raises(UnsupportedError, match=file):
        SafetensorsReader(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    assert "no weights" in opening_fails(tmp_path).message


def small_file() -> bytes:
    """Two tensors, of which one byte each is anything but zero."""
    header = {"__metadata__": {"k": "v"}, "a": entry("F16", [2, 3], 0, 12), "b": GOOD}
    header["b"] = entry("F32", [2, 2], 12, 28)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(range(28))


@given(st.data())
def test_corrupted_files_raise_nothing_but_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("corrupt")
    raw = bytearray(small_file())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(raw)))
        cut = data.draw(st.integers(0, 12))
        patch = data.draw(
            st.binary(max_size=9) | st.sampled_from([b"9" * 30, b'"', b"[", b"null", b"-1", b"1e9"])
        )
        raw[position : position + cut] = patch
    path = folder / SINGLE
    path.write_bytes(raw)
    try:
        with SafetensorsReader(folder) as reader:
            for name in reader.names():
                with suppress(EdgewiseError):
                    assert reader.read(name).shape == reader.shape(name)
            names = reader.names()
    except EdgewiseError:
        return
    with safe_open(path, framework="np") as theirs:
        assert set(theirs.keys()) == set(names)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(key=st.sampled_from(["dtype", "shape", "data_offsets", "", "w"]), value=JSON_VALUES)
def test_hostile_header_values_raise_nothing_but_our_errors(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    header: dict[str, Any] = {"w": GOOD | {key: value}} if key != "w" else {"w": value}
    write_raw(folder, header, bytes(16))
    try:
        SafetensorsReader(folder).close()
    except EdgewiseError:
        return
    with safe_open(folder / SINGLE, framework="np") as theirs:
        assert list(theirs.keys()) == ["w"]
