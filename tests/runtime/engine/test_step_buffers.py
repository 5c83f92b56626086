"""Step buffers hold what docs/bundle-format.md says, each number in its place."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import (
    Line,
    StepBuffers,
    counts_row,
    eos_array,
    row_arrays,
    sampling_arrays,
    step_array,
    table_array,
)
from edgewise_runtime.errors import BundleError
from tests.runtime.engine.toy import ToyProgram
from tests.runtime.engine.toy_bundle import Bounds

LINES = [Line(20, 2, [7, 3], limit=40, slot=1), Line(0, 3, [5], limit=9)]


def test_a_step_counts_rows_sequences_and_logits_and_how_far_it_reaches() -> None:
    assert step_array(5, 2, 1, 22).tolist() == [5, 2, 1, 22, 0, 0, 0, 0]


def test_a_table_row_is_a_sequence_with_its_pages() -> None:
    assert table_array(LINES, 12).tolist() == [
        [20, 0, 2, 0, 40, 0, 1, 0, 7, 3, 0, 0],
        [0, 2, 3, 0, 9, 0, 0, 0, 5, 0, 0, 0],
    ]


def test_rows_follow_each_other_line_by_line() -> None:
    arrays = row_arrays(LINES, [11, 12, 13, 14, 15])
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "tokens": [11, 12, 13, 14, 15],
        "positions": [20, 21, 0, 1, 2],
        "row_seq": [0, 0, 1, 1, 1],
    }
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.int32)}


def test_sampling_is_numbers_seed_and_biases() -> None:
    params = SamplingParams(
        temperature=0.5,
        top_k=40,
        top_p=0.75,
        min_p=0.25,
        repetition_penalty=1.5,
        presence_penalty=2.0,
        frequency_penalty=-3.0,
        logit_bias={9: 1.5, 4: -2.0},
        ignore_eos=True,
    )
    greedy = SamplingParams(temperature=0, top_p=1.0)
    arrays = sampling_arrays([(params, (3 << 32) + (1 << 31), 6), (greedy, 0, 0)])
    assert arrays["sampling_f"].tolist() == [
        [0.5, 0.75, 0.25, 1.5, 2.0, -3.0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 0],
    ]
    assert arrays["sampling_i"].tolist() == [[40, -(1 << 31), 3, 2, 1, 6, 0, 0], [0] * 8]
    assert arrays["bias_ids"].shape == arrays["bias_values"].shape == (2, 320)
    assert arrays["bias_ids"][0, :3].tolist() == [9, 4, 0]
    assert arrays["bias_values"][0, :3].tolist() == [1.5, -2.0, 0]


def test_end_tokens_are_followed_by_none() -> None:
    assert eos_array([3, 1]).tolist() == [3, 1] + [-1] * 14
    with pytest.raises(BundleError, match="17 end tokens") as refused:
        eos_array(range(17))
    assert refused.value.code == "bundle.eos"


def test_counts_tell_drawn_tokens_from_those_of_the_prompt() -> None:
    assert counts_row([1, 1, 2, 2, 4, 2], 3, 6).tolist() == [0, 1, 5, 0, 2, 0]


def test_a_reach_stays_within_the_context() -> None:
    program = ToyProgram(Bounds(pages=8, rows=32, batch=2, context=48))
    buffers = StepBuffers(program, ())
    assert (buffers.rows, buffers.sequences, buffers.pages) == (32, 2, 3)
    buffers.compute([Line(47, 1, [0, 1, 2], limit=47)], [5], reach=55, logits=1)
    assert program.read("step").tolist() == [1, 1, 1, 48, 0, 0, 0, 0]
