"""Parameters find their tensors in the checkpoint, in the shape they need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.models.base import VectorSpec
from edgewise_compiler.weights.params import check_param, param_sources
from edgewise_runtime.errors import CheckpointError
from tests.compiler.layouts.linears import STACKED, make_sources, write_tensors


def test_a_parameter_says_what_it_is_made_of() -> None:
    found = param_sources(STACKED)
    assert found == {name: array.shape for name, array in make_sources(STACKED).items()}
    assert param_sources(VectorSpec("n", "norm", 40)) == {"norm": (40,)}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("a", (47, 96)), ("a", (96, 48)), ("b", (16,)), ("c", (17, 96, 1)), ("c.b", (16,))],
)
def test_a_source_of_another_shape_is_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    tensors = make_sources(STACKED) | {name: np.ones(shape, np.float32)}
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError) as caught,
    ):
        check_param(STACKED, reader)
    assert f"{name} has shape {list(shape)}" in caught.value.message


def test_a_missing_bias_is_refused(tmp_path: Path) -> None:
    tensors = make_sources(STACKED)
    del tensors["b.b"]
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError, match=r"'b\.b'"),
    ):
        check_param(STACKED, reader)


def test_a_vector_of_another_size_is_refused(tmp_path: Path) -> None:
    with write_tensors(tmp_path, {"norm": np.ones(40, np.float32)}) as reader:
        check_param(VectorSpec("n", "norm", 40), reader)
        with pytest.raises(CheckpointError, match=r"norm has shape \[40\]"):
            check_param(VectorSpec("n", "norm", 32), reader)
