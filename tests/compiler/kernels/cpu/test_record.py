"""record: what a step leaves for the next one and for the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_compiler.kernels.cpu.sampling.record import record
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import NOT_FINITE
from tests.compiler.kernels.conftest import RUNNABLE, aligned_copy, build
from tests.compiler.kernels.sampling_reference import Request

N, B, PAGES, V = 6, 4, 3, 40
SLOTS = [2, 0, 3, 1]
Array = npt.NDArray[Any]


@functools.cache
def kernel_for(isa: str, advance: bool) -> Callable[..., None]:
    function = record(SamplingSpec(N, B, PAGES, V, V), advance=advance)
    return next(iter(build([function], isa).values()))


@dataclass
class State:
    """All that record reads and writes, for ``live`` sequences with some history."""

    sampled: list[int]
    live: int = B
    kv_len: int = 20
    limit: int = 100
    count: int = 0
    stops: tuple[int, ...] = (0,) * B
    eos: tuple[int, ...] = ()
    requests: tuple[Request, ...] = (Request(),) * B
    arrays: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        table = rng.integers(0, 1000, (B, 8 + PAGES))
        table[:, 0], table[:, 3], table[:, 4] = self.kv_len, self.stops, self.limit
        table[:, 5], table[:, 6] = self.count, SLOTS
        eos = [*self.eos, *[-1] * (16 - len(self.eos))]
        arrays = {
            "sampled": [*self.sampled, *[0] * (B - len(self.sampled))],
            "table": table,
            "tokens": np.full(N, -5),
            "positions": np.full((N, 1), -5),
            "ring": np.full((B, 64), -5),
            "eos": eos,
            "counts": rng.integers(0, 5, (B, V)),
            "sampling_f": np.array([request.floats() for request in self.requests], "float32"),
            "sampling_i": [request.integers() for request in self.requests],
            "step": step_array(self.live, self.live, self.live, 0),
        }
        self.arrays = {
            name: aligned_copy(np.asarray(a, None if name == "sampling_f" else "int32"))
            for name, a in arrays.items()
        }
        self.before = {name: array.copy() for name, array in self.arrays.items()}

    def changed(self, name: str) -> list[tuple[tuple[int, ...], int]]:
        """Index and new value of every element of an array that has changed."""
        now, then = self.arrays[name], self.before[name]
        return [(tuple(int(i) for i in at), int(now[tuple(at)])) for at in np.argwhere(now != then)]

    def run(self, isa: str = RUNNABLE[0], *, advance: bool = True) -> State:
        kernel_for(isa, advance)(*self.arrays.values())
        return self


def test_the_token_goes_where_the_next_step_and_the_host_read_it(isa: str) -> None:
    state = State([7, 8, 9, 10], count=3).run(isa)
    assert state.changed("tokens") == [((i,), 7 + i) for i in range(B)]
    assert state.changed("positions") == [((i, 0), 21) for i in range(B)]
    assert state.changed("ring") == [((i, 3), 7 + i) for i in range(B)]
    fields = [[((i, 0), 21), ((i, 5), 4)] for i in range(B)]
    assert state.changed("table") == [change for row in fields for change in row]
    assert state.changed("counts") == []


def test_after_prefill_the_length_is_already_that_of_the_prompt() -> None:
    state = State([7, 8, 9, 10]).run(advance=False)
    assert state.changed("positions") == [((i, 0), 20) for i in range(B)]
    assert state.changed("table") == [((i, 5), 1) for i in range(B)]


def test_nothing_but_tables_tokens_ring_and_counts_is_written() -> None:
    requests = (Request(presence=0.5),) * B
    state = State([7, 8, 9, 10], eos=(8,), requests=requests).run()
    written = {name for name in state.arrays if state.changed(name)}
    assert written == {"table", "tokens", "positions", "ring", "counts"}


@pytest.mark.parametrize("place", [0, 1, 15])
def test_an_end_token_stops_its_sequence(place: int) -> None:
    eos = [31, 32, 33, *range(100, 113)]
    eos[place] = 9
    state = State([7, 8, 9, 10], eos=tuple(eos)).run()
    assert state.arrays["table"][:, 3].tolist() == [0, 0, 1, 0]
    assert state.arrays["ring"][2, 0] == 9


def test_an_end_token_that_is_to_be_ignored_does_not_stop() -> None:
    requests = (Request(), Request(), Request(ignore_eos=True), Request())
    state = State([9, 8, 9, 9], eos=(9,), requests=requests).run()
    assert state.arrays["table"][:, 3].tolist() == [1, 0, 0, 1]


def test_without_end_tokens_nothing_ends() -> None:
    state = State([0, 1, 2, V - 1], eos=()).run()
    assert state.arrays["table"][:, 3].tolist() == [0] * B


@pytest.mark.parametrize(
    ("advance", "kv_len", "stop"), [(True, 98, 0), (True, 99, 2), (False, 99, 0), (False, 100, 2)]
)
def test_reaching_the_limit_stops(advance: bool, kv_len: int, stop: int) -> None:
    state = State([1], live=1, kv_len=kv_len, limit=100).run(advance=advance)
    assert state.arrays["table"][0, 3] == stop


def test_an_end_token_at_the_limit_counts_as_the_end() -> None:
    state = State([9], live=1, kv_len=99, limit=100, eos=(9,)).run()
    assert state.arrays["table"][0, 3] == 1


def test_ignoring_the_end_does_not_ignore_the_limit() -> None:
    requests = (Request(ignore_eos=True),) * B
    state = State([9], live=1, kv_len=99, limit=100, eos=(9,), requests=requests).run()
    assert state.arrays["table"][0, 3] == 2


def test_a_row_that_nothing_was_drawn_for_stops_and_others_go_on() -> None:
    requests = (Request(presence=0.5, ignore_eos=True),) * B
    state = State([7, NOT_FINITE, 9, 10], kv_len=99, eos=(7,), requests=requests).run()
    assert state.arrays["table"][:, 3].tolist() == [2, 3, 2, 2]
    assert state.arrays["ring"][1, 0] == NOT_FINITE
    # The next step embeds it beside the others: it has a token there.
    assert state.arrays["tokens"][:B].tolist() == [7, 0, 9, 10]
    assert {place[0] for place, _ in state.changed("counts")} == {SLOTS[i] for i in (0, 2, 3)}


def test_stopped_and_absent_sequences_stay_as_they_are() -> None:
    state = State([7, 8, 9], live=3, stops=(1, 0, 2, 0)).run()
    rows = {change[0][0] for name in ("table", "tokens", "ring") for change in state.changed(name)}
    assert rows == {1}


@pytest.mark.parametrize(
    "request_", [Request(repetition=1.1), Request(presence=0.1), Request(frequency=-0.1)]
)
def test_tokens_are_counted_in_their_slot_while_a_penalty_is_on(request_: Request) -> None:
    state = State([7, 8, 8, 10], requests=(request_, Request(), request_, request_)).run()
    before = state.before["counts"]
    places = sorted([(SLOTS[0], 7), (SLOTS[2], 8), (SLOTS[3], 10)])
    assert state.changed("counts") == [(place, int(before[place]) + 2) for place in places]


def test_a_burst_fills_the_ring_in_order() -> None:
    state = State([0, 0, 0, 0], limit=10**6)
    for token in range(64):
        state.arrays["sampled"][:] = token % V
        state.run()
    assert state.arrays["ring"][1].tolist() == [token % V for token in range(64)]
    assert state.arrays["table"][:, [0, 5]].tolist() == [[20 + 64, 64]] * B
