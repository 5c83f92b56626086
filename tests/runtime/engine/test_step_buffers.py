"""Step buffers hold what docs/bundle-format.md says, each number in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import (
    StepBuffers,
    counts_row,
    eos_array,
    row_arrays,
    sampling_arrays,
    step_array,
)
from edgewise_runtime.engine.table_rows import Line, table_array
from edgewise_runtime.errors import BundleError, DeviceError
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.runtime.engine.toy import Failure, ToyProgram
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
    assert arrays["biases"].shape == (2, 2, 320)
    assert arrays["biases"][0, 0, :3].tolist() == [9, 4, 0]
    assert arrays["biases"][0, 1, :3].view(np.float32).tolist() == [1.5, -2.0, 0]


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


class Told(ToyProgram):
    """A toy that remembers what was written to it since it was last asked."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._told: list[tuple[str, int]] = []

    def write(self, buffer: str, array: npt.NDArray[Any], offset_elems: int = 0) -> None:
        self._told.append((buffer, array.size))
        super().write(buffer, array, offset_elems)

    def told(self) -> list[tuple[str, int]]:
        told, self._told = self._told, []
        return told


class Bursts:
    """Two sequences on a toy that decode in bursts, each page their own."""

    def __init__(self) -> None:
        self.program = Told(Bounds(pages=64, rows=32, batch=2, context=512))
        self.buffers = StepBuffers(self.program, ())
        self.buffers.sampling([(SamplingParams(temperature=0, ignore_eos=True), 0, 0)] * 2)
        self.pages = [list(range(2)), list(range(32, 34))]
        self.known = [[1, 2, 3], [4, 5, 6, 7]]
        lines = [Line(0, len(known), pages, 1000) for known, pages in self.rows()]
        tokens = [token for known in self.known for token in known]
        self.buffers.compute(lines, tokens, reach=4)
        for plan in ("embed", "prefill"):
            self.program.run(plan)
        self.program.told()

    def rows(self) -> list[tuple[list[int], list[int]]]:
        return list(zip(self.known, self.pages, strict=True))

    def decode(self, k: int, limit: int = 1000) -> list[list[int]]:
        """A burst of both, whose last tokens are not in KV yet."""
        for known, pages in self.rows():
            while len(pages) * PAGE_TOKENS < len(known) + k:
                pages.append(pages[-1] + 1)
        lines = [Line(len(known) - 1, 1, pages, limit) for known, pages in self.rows()]
        reach = max(len(known) for known in self.known) + k
        last = [known[-1] for known in self.known]
        self.buffers.compute(lines, last, reach=reach, logits=2)
        self.program.run("decode", k)
        drawn = self.buffers.drawn(2)
        for known, tokens in zip(self.known, drawn, strict=True):
            known += tokens
        return drawn


def test_a_burst_that_goes_on_is_told_its_reach_and_the_pages_that_came() -> None:
    bursts = Bursts()
    for known in bursts.known:
        known.append(8)  # drawn from the prompt's last row
    bursts.decode(8)
    assert {"tokens", "positions", "table"} <= {name for name, _ in bursts.program.told()}
    alone, written = Bursts(), 0
    for known in alone.known:
        known.append(8)
    for _ in range(20):
        bursts.decode(8)
        told = bursts.program.told()
        assert {name for name, _ in told} <= {"step", "table"}
        assert all(size <= 3 for name, size in told if name == "table")
        written += sum(size for name, size in told if name == "table")
    assert written <= 2 * 10 * 4
    # The ring has gone round by then: the tokens are those of single steps.
    while len(alone.known[0]) < len(bursts.known[0]):
        alone.buffers._ahead = None
        alone.decode(1)
    assert alone.known == bursts.known


@pytest.mark.parametrize("change", ["token", "limit", "start"])
def test_whoever_departs_from_where_the_burst_ended_is_told_everything(change: str) -> None:
    bursts = Bursts()
    for known in bursts.known:
        known.append(8)
    bursts.decode(4)
    bursts.program.told()
    if change == "token":
        bursts.known[0][-1] = (bursts.known[0][-1] + 1) % 7
    elif change == "start":
        del bursts.known[1][-1]
    bursts.decode(4, limit=100 if change == "limit" else 1000)
    assert {"tokens", "positions", "row_seq", "logit_rows", "table"} <= {
        name for name, _ in bursts.program.told()
    }


def test_a_sequence_that_the_device_has_stopped_does_not_go_on() -> None:
    bursts = Bursts()
    for known in bursts.known:
        known.append(8)
    assert [len(tokens) for tokens in bursts.decode(4, limit=6)] == [3, 2]
    bursts.program.told()
    assert [len(tokens) for tokens in bursts.decode(4, limit=6)] == [1, 1]
    assert ("tokens", 2) in bursts.program.told()


def test_after_a_failure_everything_is_told_again() -> None:
    bursts = Bursts()
    for known in bursts.known:
        known.append(8)
    bursts.decode(4)
    bursts.program.fail(Failure("device.kernel"))
    with pytest.raises(DeviceError):
        bursts.decode(4)
    bursts.program.told()
    bursts.decode(4)
    assert ("tokens", 2) in bursts.program.told()


def test_biases_are_written_where_there_are_some() -> None:
    program = Told(Bounds(batch=2))
    buffers = StepBuffers(program, ())
    buffers.sampling([(SamplingParams(), 1, 0)])
    assert not [name for name, _ in program.told() if name.startswith("bias")]
    buffers.sampling([(SamplingParams(logit_bias={3: 1.0}), 1, 0)])
    assert {name for name, _ in program.told()} >= {"biases"}
