"""Bursts: recorded once, submitted with one call, ordered by the barriers that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgewise_runtime.devices.vulkan.device import VulkanProgram
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices.gpu_programs import write_step, write_table

Make = Callable[..., Bundle]


def test_a_burst_is_one_submission_and_is_recorded_once(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode", 8)
    made = replace(program.counters)
    assert made.recordings == 1
    for burst in (2, 3):
        program.run("decode", 8)
        table, step = program.read("table"), program.read("step", slice(0, 2))
        assert (table[0, 0], step.tolist()) == (8 * burst, [4, 2])
    # One look brings home all that the plan wrote.
    assert program.counters == replace(
        made,
        submits=made.submits + 2,
        dispatches=made.dispatches + 16,
        readbacks=made.readbacks + 2,
    )


def test_what_the_host_writes_goes_along_with_the_burst(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode", 8)
    before = replace(program.counters)
    write_table(program)
    write_step(program)
    program.run("decode", 8)
    assert program.read("table")[0, 0] == 8
    assert program.counters == replace(
        before,
        copies=before.copies + 1,
        submits=before.submits + 1,
        dispatches=before.dispatches + 8,
        readbacks=before.readbacks + 1,
    )


def test_each_grid_and_each_length_of_a_burst_is_recorded(program: VulkanProgram) -> None:
    write_table(program)
    for at, (step, k) in enumerate([((4, 2), 1), ((4, 2), 2), ((3, 2), 2), ((4, 1), 2)], 1):
        write_step(program, *step)
        program.run("decode", k)
        # The grid of `decode` follows no symbol.
        assert program.counters.recordings == min(at, 2)
    for n in (1, 2, 1, 2):
        write_step(program, n)
        program.run("prefill")
    assert program.counters.recordings == 4


def test_only_so_many_recordings_are_kept(
    program: VulkanProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.bursts.MAX_RECORDINGS", 2)
    write_table(program)
    write_step(program)
    lengths = (1, 2, 3, 1, 3, 1)
    for k in lengths:
        program.run("decode", k)
    # The third took the place of the first, which had to be recorded anew in that of the second.
    assert program.counters.recordings == 4
    assert program.read("table")[0, 0] == sum(lengths)


def test_launches_wait_only_for_what_they_depend_on(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("visit")
    assert program.counters.barriers == 0
    program.run("prefill")
    assert program.counters.barriers == 1
    program.run("decode", 8)
    assert program.counters.barriers == 1 + 7


def test_bursts_may_follow_each_other_without_a_look(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    for _ in range(50):
        program.run("decode", 8)
    assert program.counters.recordings == 1
    assert program.counters.readbacks == 0
    assert program.read("table")[:, 0].tolist() == [400, 400]
