"""What the landing suite takes of the parity cases has every family, scheme and program in it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.parity import test_contract, test_parity, test_parity_webgpu
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import write_checkpoint
from tests.parity.sampled import sampled
from tests.parity.test_parity import config

NONE = (None, (), 1.0)
"""Values of what a model has not; numbers of things are no traits."""


def quick(parameters: list[Any]) -> set[tuple[Any, ...]]:
    return {each.values for each in parameters if not each.marks}


def test_every_family_is_in_the_landing_suite_on_the_cpu() -> None:
    families = {name.split("-")[0] for name in CASES}
    assert {case.split("-")[0] for case, *_ in quick(test_parity.FLOATS)} == families
    assert quick(test_parity.CODED)


def traits(case: str, folder: Path) -> set[tuple[str, object]]:
    """What a model has, and what it has not, of what models differ in besides sizes."""
    cfg = config(write_checkpoint(case, folder))
    values = {f.name: getattr(cfg, f.name) for f in fields(cfg) if f.name != "family"}
    return {
        (name, value if isinstance(value, bool | str) else type(value) is int or value not in NONE)
        for name, value in values.items()
    }


def test_every_trait_is_in_the_landing_suite_on_gpus(tmp_path: Path) -> None:
    on_gpu = quick(test_parity_webgpu.FLOATS + test_parity_webgpu.ONCE)
    every = {name: traits(name, tmp_path) for name in CASES}
    assert set().union(*(every[case] for case, *_ in on_gpu)) == set().union(*every.values())
    assert quick(test_parity_webgpu.CODED)


def test_every_scheme_is_in_the_landing_suite() -> None:
    assert quick(test_parity.HALVES)
    assert {quant for _, quant in quick(test_parity.INTEGERS)} == {
        "q8",
        "q6",
        "q4",
        "fours",
        "fives",
    }
    assert {quant for _, quant in quick(test_parity_webgpu.AGREEING)} == {"f16"}
    assert quick(test_parity_webgpu.QUANTIZED)


def test_the_contract_is_tested_for_every_program() -> None:
    programs = [*test_contract.PATHS, *(variant.name for variant in test_contract.VARIANTS)]
    for program in programs:
        assert test_contract.is_quick("q4", program, "auto")
    taken = [w for w in test_contract.PROGRAMS if test_contract.is_quick(w.quant, w.program, w.kv)]
    assert {w.quant for w in taken} == {"f32", "q8", "q6", "q4", "fours", "fives"}
    for kind in (test_contract.CPU_PROGRAMS, test_contract.GPU_PROGRAMS):
        assert {w.kv for w in taken if w in kind} == {"auto", "int8"}


def test_the_others_are_marked() -> None:
    one, other = sampled([1, 2], [2])
    assert [mark.name for mark in one.marks] == ["full"]
    assert not other.marks
    with pytest.raises(ValueError, match="3"):
        sampled([1, 2], [3])
