"""A GGUF file is read as it was written; a damaged one is an EdgewiseError, not a crash."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize

from edgewise_compiler.gguf.blocks import BY_NAME
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError

KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL")
SHAPE = (12, 1024)
"""Of every tensor; the file's 180 KB are many times what Python takes to read a header."""

TEXT, U32, ARRAY = 8, 4, 9


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def info(name: str, dims: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return text(name) + shape + struct.pack("<IQ", kind, offset)


def build(
    pairs: tuple[bytes, ...] = (),
    infos: tuple[bytes, ...] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A file of these parts; it claims ``counts`` of tensors and pairs, or what there is."""
    claimed = counts or (len(infos), len(pairs))
    head = b"GGUF" + struct.pack("<IQQ", version, *claimed) + b"".join(pairs + infos)
    return head + b"\0" * (-len(head) % 32) + data


GOOD = info("w", (2, 3))
DATA = np.arange(6, dtype="<f4").tobytes()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of metadata, and tensors of several types."""
    path = tmp_path_factory.mktemp("gguf") / "sample.gguf"
    writer = GGUFWriter(path, "llama")
    for kind, value in (
        ("uint8", 200), ("int8", -3), ("uint16", 60000), ("int16", -300), ("uint32", 1 << 31),
        ("int32", -5), ("float32", 0.5), ("bool", True), ("string", "Zürich"),
        ("uint64", 1 << 63), ("int64", -1 << 62), ("float64", 1e300),
    ):  # fmt: skip
        getattr(writer, f"add_{kind}")(f"key.{kind}", value)
    writer.add_array("key.texts", ["a", "", "東京"])
    writer.add_array("key.numbers", [3, -1, 2])
    writer.add_array("key.flags", [True, False])
    rng = np.random.default_rng(3)
    for kind in KINDS:
        type_ = GGMLQuantizationType[kind]
        elements, size = GGML_QUANT_SIZES[type_]
        # Bytes that make no infinite number, whichever of them are a scale.
        rows = rng.integers(0, 60, (SHAPE[0], SHAPE[1] // elements * size), np.uint8)
        writer.add_tensor(f"{kind}.weight", rows, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def fails(tmp_path: Path, content: bytes, kind: type[EdgewiseError] = CheckpointError) -> str:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(kind) as caught:
        GgufReader(path)
    assert caught.value.remedy
    assert len(caught.value.message) < 300
    return caught.value.message


def test_metadata_of_every_type_is_read(sample: Path) -> None:
    with GgufReader(sample) as reader:
        found = {key.removeprefix("key."): value for key, value in reader.metadata.items()}
    assert (found["uint8"], found["int8"], found["uint16"]) == (200, -3, 60000)
    assert (found["int16"], found["uint32"], found["int32"]) == (-300, 1 << 31, -5)
    assert (found["float32"], found["bool"], found["string"]) == (0.5, True, "Zürich")
    assert (found["uint64"], found["int64"], found["float64"]) == (1 << 63, -1 << 62, 1e300)
    assert found["texts"] == ["a", "", "東京"]
    assert np.array_equal(found["numbers"], [3, -1, 2])  # type: ignore[arg-type]
    assert np.array_equal(found["flags"], [True, False])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_gguf_package(sample: Path, kind: str) -> None:
    with GgufReader(sample) as reader:
        name = f"{kind}.weight"
        assert (reader.shape(name), reader.dtype(name)) == (SHAPE, kind)
        whole = reader.read(name)
        np.testing.assert_array_equal(reader.read(name, 1, 3), whole[1:3])
        assert reader.read(name, 2, 2).shape == (0, SHAPE[1])
    raw = bytes_of(sample, name, whole.shape[0])
    expected = dequantize(raw, GGMLQuantizationType[kind])
    np.testing.assert_array_equal(whole, expected.astype(np.float32))


def bytes_of(path: Path, name: str, rows: int) -> Any:
    tensor = next(tensor for tensor in GGUFReader(path).tensors if tensor.name == name)
    return np.array(tensor.data).view(np.uint8).reshape(rows, -1)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_written_by_hand_is_read(tmp_path: Path, version: int) -> None:
    (tmp_path / "x.gguf").write_bytes(build((), (GOOD,), DATA, version=version))
    with GgufReader(tmp_path / "x.gguf") as reader:
        np.testing.assert_array_equal(reader.read("w"), [[0, 1], [2, 3], [4, 5]])


@pytest.mark.parametrize("size", [0, 4095, 4096, 4097, 20000])
def test_texts_of_any_length_are_read(tmp_path: Path, size: int) -> None:
    value = "a" * size + "é漢🙂"
    (tmp_path / "x.gguf").write_bytes(build((pair("k", TEXT, text(value)),), (GOOD,), DATA))
    with GgufReader(tmp_path / "x.gguf") as reader:
        assert reader.metadata["k"] == value
    (tmp_path / "x.gguf").write_bytes(build((pair("k", TEXT, text(value.encode()[:-1])),)))
    with pytest.raises(CheckpointError, match="not UTF-8"):
        GgufReader(tmp_path / "x.gguf")


def test_part_of_a_quantized_vector_is_read(tmp_path: Path) -> None:
    block = b"\0\x3c" + bytes(range(32))
    (tmp_path / "x.gguf").write_bytes(build((), (info("v", (64,), 8),), block * 2))
    with GgufReader(tmp_path / "x.gguf") as reader:
        np.testing.assert_array_equal(reader.read("v", 30, 34), [30, 31, 0, 1])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the format's name"),
        (b"GGML" + bytes(60), "does not begin with GGUF"),
        (b"GGUF\3\0\0\0", "a number"),
        (build(counts=(1 << 40, 0)), "1099511627776 tensors"),
        (build(counts=(0, 1 << 63)), "metadata pairs"),
        (build((text("k" * 70000),)), "70000 bytes"),
        (build((pair("k", TEXT, struct.pack("<Q", 1 << 62)),)), "the value of 'k'"),
        (build((pair("k", TEXT, text(b"\xff")),)), "not UTF-8"),
        (build((pair("k", 13, b"1234"),)), "type 13"),
        (build((pair("k", 7, b"\2"),)), "neither true nor false"),
        (build((pair("k", ARRAY, struct.pack("<IQ", U32, 1 << 60)),)), "numbers in 'k'"),
        (build((pair("k", ARRAY, struct.pack("<IQ", TEXT, 1 << 60)),)), "strings in 'k'"),
        (build((pair("k", ARRAY, struct.pack("<IQ", ARRAY, 1) + bytes(64)),)), "array of arrays"),
        (build((pair("k", U32, b"1234"),) * 2), "'k' appears twice"),
        (build((pair("general.alignment", U32, struct.pack("<I", 24)),)), "power of two"),
        (build((pair("general.alignment", U32, struct.pack("<I", 0)),)), "power of two"),
        (build((pair("general.alignment", TEXT, text("32")),)), "power of two"),
        (build((), (info("n" * 65, (2, 3)),), DATA), "65 bytes"),
        (build((), (info("w", ()),), DATA), "0 dimensions"),
        (build((), (info("w", (1, 1, 1, 1, 1)),), DATA), "5 dimensions"),
        (build((), (info("w", (0, 3)),), DATA), "shape [3, 0]"),
        (build((), (info("w", (1 << 63, 1 << 63)),), DATA), "shape"),
        (build((), (info("w", (16, 2), 2),), DATA * 2), "no whole blocks of Q4_0"),
        (build((), (info("w", (2, 4)),), DATA), "the file at"),
        (build((), (info("w", (2, 3), offset=8),), DATA * 3), "begins at 8"),
        (build((), (GOOD, info("w", (2, 3), offset=32)), DATA * 3), "'w' appears twice"),
        (build((), (GOOD, info("v", (2, 3))), DATA * 3), "begins at 0, not at 32"),
        (build((), (GOOD, info("v", (2, 3), offset=64)), DATA * 9), "begins at 64, not at 32"),
    ],
)
def test_what_the_format_does_not_allow_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    assert said in fails(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GGUF" + struct.pack(">I", 3) + bytes(60), "big-endian"),
        (build(version=1), "version 1"),
        (build(version=4), "version 4"),
        (build((), (info("w", (32, 3), 31),), DATA * 9), "Q4_0_4_4, which ggml no longer has"),
        (build((), (info("w", (32, 3), 99),), DATA * 9), "type 99"),
    ],
)
def test_what_is_not_read_is_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in fails(tmp_path, content, UnsupportedError)


def test_a_type_that_is_not_decoded_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(build((), (info("w", (256,), 16),), bytes(66)))
    with (
        GgufReader(tmp_path / "x.gguf") as reader,
        pytest.raises(UnsupportedError, match="IQ2_XXS"),
    ):
        reader.read("w")


def test_what_is_not_a_number_is_refused(tmp_path: Path) -> None:
    data = np.array([0, 1, 2, np.nan, 4, 5], "<f4").tobytes()
    (tmp_path / "x.gguf").write_bytes(build((), (GOOD,), data))
    with GgufReader(tmp_path / "x.gguf") as reader:
        assert reader.read("w", 0, 1).tolist() == [[0, 1]]
        with pytest.raises(CheckpointError, match=r"nan at index \[1, 1\]"):
            reader.read("w", 1)


def mutations(content: bytes, header: int, count: int, seed: int) -> Iterator[bytes]:
    """Files with some of the header's bytes changed, put in or left out, or the end cut off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        raw = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            at, value = int(rng.integers(header)), int(rng.choice([0, 1, 9, 31, 127, 255]))
            match rng.integers(8):
                case 0:
                    del raw[int(rng.integers(len(raw))) :]
                case 1:
                    raw.insert(at, value)
                case 2:
                    del raw[at : at + 1]
                case 3:
                    raw[at : at + 8] = rng.integers(0, 256, 8, np.uint8).tobytes()
                case 4:
                    raw[at : at + 1] = bytes(byte ^ value for byte in raw[at : at + 1])
                case _:
                    raw[at : at + 1] = bytes([value])
        yield bytes(raw)


def check_mutations(sample: Path, tmp_path: Path, count: int, seed: int) -> None:
    content, path, opened = sample.read_bytes(), tmp_path / "x.gguf", 0
    with GgufReader(sample) as reader:
        header = len(content) - sum(size_of(reader, name) for name in reader.names())
    written = read_all(sample)
    tracemalloc.start()
    try:
        for mutated in mutations(content, header, count, seed):
            path.write_bytes(mutated)
            found = read_all(path)
            opened += bool(found)
            # What is as it was written is right; of anything else another reader judges.
            if not all(np.array_equal(written.get(name), found[name]) for name in found):
                theirs = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
                for name, values in found.items():
                    right = dequantize(np.array(theirs[name].data), theirs[name].tensor_type)
                    np.testing.assert_array_equal(values.reshape(-1), right.reshape(-1), name)
    finally:
        tracemalloc.stop()
    assert 0 < opened < count


def read_all(path: Path) -> dict[str, Any]:
    """Every tensor that a file gives without an error of ours."""
    found = {}
    with suppress(EdgewiseError), ExitStack() as opened:
        with twice_the_file(path):
            reader = opened.enter_context(GgufReader(path))
        for name in reader.names():
            floats = 4 * int(np.prod(reader.shape(name)))
            with suppress(EdgewiseError), twice_the_file(path, floats):
                found[name] = reader.read(name)
    return found


@contextmanager
def twice_the_file(path: Path, floats: int = 0) -> Iterator[None]:
    """Fails where more memory is in use at a time, beside what becomes of the bytes as float32.

    A buffer and an error's traceback take some, too, however small the file is.
    """
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < 2 * path.stat().st_size + floats + (1 << 15)


def size_of(reader: GgufReader, name: str) -> int:
    """Bytes of a tensor and of the padding after it."""
    block = BY_NAME[reader.dtype(name)]
    size = int(np.prod(reader.shape(name))) // block.elements * block.bytes
    return -(-size // 32) * 32


def test_mutated_files_are_refused_or_hold_the_right_values(sample: Path, tmp_path: Path) -> None:
    check_mutations(sample, tmp_path, 500, seed=1)


@pytest.mark.full
def test_many_mutated_files_are_refused_or_hold_the_right_values(
    sample: Path, tmp_path: Path
) -> None:
    check_mutations(sample, tmp_path, 10_000, seed=2)
