"""Tensors by other names than they are stored under: some of their rows, as floats and as codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_compiler.weights.stacked import Share
from edgewise_compiler.weights.views import Turning, View, ViewReader, split, viewed
from edgewise_runtime.errors import CheckpointError
from tests.parity.storing import write_safetensors

TALL = np.arange(24 * 32, dtype=np.float32).reshape(24, 32)
VECTOR = np.array([0.5, -0.25], np.float32)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[SafetensorsReader]:
    tensors = {"tall": TALL, "vector": VECTOR}
    stored = {name: ("F32", a.shape, a.tobytes()) for name, a in tensors.items()}
    write_safetensors(tmp_path / "model.safetensors", stored)
    with SafetensorsReader(tmp_path) as opened:
        yield opened


def test_a_part_of_a_tensor_without_rows_has_no_shape(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"one": ("F32", (), bytes(4))})
    with SafetensorsReader(tmp_path) as opened:
        assert ViewReader(opened, {"less": View("one", plus=1.0)}).shape("less") == ()


def test_parts_of_a_tensor_are_read_by_their_names(reader: SafetensorsReader) -> None:
    with ViewReader(reader, split("tall", {"a": 16, "b": 8})) as views:
        assert views.names() == ("vector", "a", "b")
        assert (views.shape("a"), views.shape("b"), views.shape("vector")) == (
            (16, 32),
            (8, 32),
            (2,),
        )
        np.testing.assert_array_equal(views.read("a"), TALL[:16])
        np.testing.assert_array_equal(views.read("b", 3, 5), TALL[19:21])
        np.testing.assert_array_equal(views.read("vector"), VECTOR)
        with pytest.raises(CheckpointError, match="rows 4"):
            views.read("b", 4, 9)


def test_a_tensor_of_other_rows_than_its_parts_has_another_shape(reader: SafetensorsReader) -> None:
    def shapes(a: int, b: int) -> list[tuple[int, ...]]:
        views = ViewReader(reader, split("tall", {"a": a, "b": b}))
        return [views.shape(name) for name in "ab"]

    assert shapes(16, 4) == [(16, 32), (8, 32)]
    assert shapes(20, 8) == [(20, 32), (4, 32)]
    assert shapes(40, 8) == [(24, 32), (0, 32)]


def test_what_turns_comes_to_the_beginnings_of_a_heads_halves(reader: SafetensorsReader) -> None:
    turned = View("tall", 8, 16, Turning(8, 4))
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    expected = TALL[[8 + head * 8 + i for head in range(2) for i in order]]
    with ViewReader(reader, {"t": turned}) as views:
        np.testing.assert_array_equal(views.read("t"), expected)
        for start, stop in ((0, 1), (3, 12), (7, 7), (15, 16)):
            np.testing.assert_array_equal(views.read("t", start, stop), expected[start:stop])


def test_vectors_are_added_to_and_multiplied(reader: SafetensorsReader) -> None:
    with ViewReader(reader, {"vector": View("vector", plus=1.0, times=0.5)}) as views:
        assert sorted(views.names()) == ["tall", "vector"]
        assert views.read("vector").tolist() == [0.75, 0.375]


def test_what_is_stored_says_how_it_is_seen(reader: SafetensorsReader) -> None:
    views = split("tall", {"a": 16, "b": 8})
    with ViewReader(reader, views) as seen:
        first, second = (b"".join(bytes(piece) for piece in seen.stored(name)) for name in "ab")
        assert first != second
        assert first.startswith(TALL.tobytes())
        assert second.startswith(TALL.tobytes())


def test_codes_of_a_view_are_those_of_its_rows() -> None:
    scheme = SCHEMES["q8"]
    whole = scheme.quantize(TALL.copy())
    views = {"t": View("tall", 8, 16, Turning(8, 4)), "b": View("tall", 4, 3)}
    held = viewed({"tall": {"q8": whole.part, "f16": None}, "other": {"q4": None}}, views)
    assert set(held) == {"other", "t", "b"}
    assert held["t"]["f16"] is None
    for name, rows in (("t", [8, 9, 12, 13, 10]), ("b", [4, 5, 6])):
        source = held[name]["q8"]
        assert source is not None
        found = source(0, len(rows))
        np.testing.assert_array_equal(found.codes, whole.codes[rows])
        np.testing.assert_array_equal(found.groups["scale"], whole.groups["scale"][rows])


STACK = np.arange(3 * 4 * 10, dtype=np.float32).reshape(3, 4, 10)
BIASES = np.arange(30, dtype=np.float32).reshape(3, 10)
UPS = {
    f"{e}.up{end}": View(f"experts{end}", share=Share(e, 3, 1, 2))
    for e in range(3)
    for end in ("", "_bias")
}


@pytest.fixture
def stacked(tmp_path: Path) -> Iterator[SafetensorsReader]:
    tensors = {"experts": STACK, "experts_bias": BIASES}
    stored = {name: ("F32", a.shape, a.tobytes()) for name, a in tensors.items()}
    write_safetensors(tmp_path / "model.safetensors", stored)
    with SafetensorsReader(tmp_path) as opened:
        yield opened


def test_an_experts_rows_are_columns_of_a_tensor_of_all(stacked: SafetensorsReader) -> None:
    with ViewReader(stacked, UPS) as views:
        assert set(views.names()) == set(UPS)
        assert (views.shape("2.up"), views.shape("2.up_bias")) == ((5, 4), (5,))
        for e in (2, 0, 1):
            np.testing.assert_array_equal(views.read(f"{e}.up", 1, 4), STACK[e, :, 3:9:2].T)
            np.testing.assert_array_equal(views.read(f"{e}.up_bias", 1, 4), BIASES[e, 3:9:2])
            np.testing.assert_array_equal(views.read(f"{e}.up"), STACK[e, :, 1::2].T)
        views.read("1.up")[:] = 0
        np.testing.assert_array_equal(views.read("1.up"), STACK[1, :, 1::2].T)


def test_an_expert_is_read_once_for_all_of_its_rows(
    stacked: SafetensorsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    read = stacked.read

    def counted(name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        seen.extend([name] if name == "experts" else [])
        return read(name, start, stop)

    monkeypatch.setattr(stacked, "read", counted)
    with ViewReader(stacked, UPS) as views:
        for e in range(3):
            for row in range(5):
                views.read(f"{e}.up", row, row + 1)
                views.read(f"{e}.up_bias", row, row + 1)
    assert seen == ["experts"] * 3


def test_the_bytes_of_an_expert_are_its_own(stacked: SafetensorsReader) -> None:
    with ViewReader(stacked, UPS) as views:
        whole = [b"".join(piece.tobytes() for piece in views.stored(name)) for name in UPS]
        assert whole[0].startswith(STACK[0, :, 1::2].T.tobytes())
        assert views.size("0.up") == 4 * 4 * 10 // 2
    assert len(set(whole)) == len(whole)


def test_a_tensor_of_another_number_of_experts_keeps_its_shape(stacked: SafetensorsReader) -> None:
    with ViewReader(stacked, {"a": View("experts", share=Share(0, 2))}) as views:
        assert views.shape("a") == (3, 4, 10)
