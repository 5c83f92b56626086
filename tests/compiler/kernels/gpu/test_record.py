"""Recording on the GPU leaves what recording on the CPU does, and ends a burst that is over."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.sampling.layout import Layout
from edgewise_compiler.kernels.gpu.sampling.record import record
from edgewise_compiler.kernels.gpu.sampling.whole import whole
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import NOT_FINITE
from tests.compiler.kernels.cpu.test_record import PAGES, B, N, State, V
from tests.compiler.kernels.sampling_batch import padded
from tests.compiler.kernels.sampling_reference import Request
from tests.gpu import run

STATES = {
    "plain": {},
    "at the limit": {"limit": 21},
    "one stopped": {"stops": (0, 1, 0, 2)},
    "end tokens": {"eos": (8, 10)},
    "end tokens ignored": {"eos": (8, 10), "requests": (Request(ignore_eos=True),) * B},
    "two live": {"live": 2},
    "penalties": {"requests": (Request(presence=0.5), Request(), Request(repetition=2.0)) * 2},
    "a full ring": {"count": 64},
    "nothing drawn": {"sampled": [7, NOT_FINITE, 9, 10], "requests": (Request(presence=0.5),) * B},
}


def on_gpu(state: State, *, advance: bool) -> dict[str, np.ndarray]:
    arrays = {name: array.copy() for name, array in state.before.items()}
    spec = SamplingSpec(N, B, PAGES, V, padded(V))
    # All rows have a token, so none of these keys is read.
    arrays["keys"] = np.full((B, Layout(padded(V)).words), 0x7F7F7F7F, np.uint32)
    arrays["left"] = np.zeros(B, np.int32)
    counting = ("keys", "left", "table", "sampling_f", "sampling_i", "sampled", "counts", "step")
    for kernel, names in (
        (whole(spec, subgroups=False), counting),
        (
            record(spec, advance=advance),
            ("sampled", "table", "tokens", "positions", "ring", "eos", "sampling_i", "step"),
        ),
    ):
        after = run(kernel, [arrays[name] for name in names], b=state.live)
        arrays |= dict(zip(names, after, strict=True))
    return arrays


@pytest.mark.landing
@pytest.mark.parametrize("advance", [False, True])
@pytest.mark.parametrize("what", STATES)
def test_everything_but_step_is_what_the_cpu_leaves(what: str, advance: bool) -> None:
    options = dict(STATES[what])
    if "requests" in options:
        options["requests"] = options["requests"][:B]
    live = options.get("live", B)
    state = State(options.pop("sampled", [7, 8, 9, 10])[:live], **options).run(advance=advance)
    found = on_gpu(state, advance=advance)
    for name, expected in state.arrays.items():
        if name != "step":
            np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.landing
@pytest.mark.parametrize(
    ("options", "rows"),
    [({"limit": 21}, 0), ({"stops": (1, 2, 1, 1)}, 0), ({"eos": (7, 8, 9)}, B), ({}, B)],
)
def test_a_burst_goes_on_only_while_a_sequence_runs(options: dict, rows: int) -> None:
    state = State([7, 8, 9, 10], **options)
    assert on_gpu(state, advance=True)["step"][:3].tolist() == [rows] * 3
    assert on_gpu(state, advance=False)["step"][:3].tolist() == [B] * 3
