"""Vectors as APIs cut and write them."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

from edgewise.hosting.base import Embedded
from edgewise.server.vectors import MAX_NUMBERS, as_base64, check_vectors, tokens_of, vector_of
from edgewise_runtime.errors import InputError
from tests.sdk.server.ollama.test_translation import FACTS

NUMBERS = np.array([3, 4, 0, 12], np.float32)
ONE = Embedded(NUMBERS.tobytes(), 7)


def test_bytes_are_numbers_again() -> None:
    np.testing.assert_array_equal(vector_of(ONE), NUMBERS)
    assert np.frombuffer(b64decode(as_base64(vector_of(ONE))), "<f4").tolist() == [3, 4, 0, 12]
    assert tokens_of([ONE, ONE]) == 14


def test_what_is_cut_has_length_1_again() -> None:
    np.testing.assert_allclose(vector_of(ONE, 2), [0.6, 0.8], rtol=1e-6)
    assert np.linalg.norm(vector_of(ONE, 4)) == pytest.approx(1)
    assert vector_of(Embedded(np.zeros(4, "<f4").tobytes(), 1), 3).tolist() == [0, 0, 0]
    large = Embedded(np.full(4, 3e38, "<f4").tobytes(), 1)
    np.testing.assert_allclose(vector_of(large, 4), [0.5] * 4, rtol=1e-6)


@pytest.mark.parametrize(
    ("hidden", "texts", "dimensions", "code"),
    [
        (64, 1, 0, "input.dimensions"),
        (64, 1, 65, "input.dimensions"),
        (MAX_NUMBERS // 4, 5, None, "input.texts"),
    ],
)
def test_more_than_there_is_or_is_written_is_refused(
    hidden: int, texts: int, dimensions: int | None, code: str
) -> None:
    with pytest.raises(InputError) as refused:
        check_vectors(replace(FACTS, hidden=hidden), texts, dimensions)
    assert refused.value.code == code
    check_vectors(replace(FACTS, hidden=64), 5, 64)
    check_vectors(replace(FACTS, hidden=MAX_NUMBERS // 4), 4, None)
