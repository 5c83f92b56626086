"""The table of targets: every entry is a target that can be compiled for, and texts say so."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import edgewise_compiler.targets
from edgewise_compiler.compile import compile_model
from edgewise_compiler.kernels.cpu.isa import ELSEWHERE, MACHINES
from edgewise_compiler.targets.table import DEFAULT, TARGETS
from edgewise_runtime.format import targets as formats

FOLDER = Path(str(edgewise_compiler.targets.__file__)).parent


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_known_to_the_format_and_has_a_folder_that_makes_it(name: str) -> None:
    assert name in formats.TARGETS
    module = import_module(f"edgewise_compiler.targets.{name}.program")
    assert [*inspect.signature(module.make).parameters] == ["job", "tensors"]
    assert name == module.TARGET


def test_every_folder_that_makes_a_target_is_in_the_table() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/program.py")} == TARGETS.keys()


def test_what_is_compiled_by_default_is_in_the_table() -> None:
    assert set(DEFAULT) <= TARGETS.keys()
    assert inspect.signature(compile_model).parameters["targets"].default == DEFAULT


@pytest.mark.parametrize("option", [o for t in TARGETS.values() for o in t.options])
def test_an_option_of_a_target_is_an_argument_of_the_compiler(option: object) -> None:
    name, default = option.name, option.default  # type: ignore[attr-defined]
    assert inspect.signature(compile_model).parameters[name].default == default


def test_the_help_names_every_path_of_the_cpu() -> None:
    (option,) = TARGETS["cpu"].options
    named = [isa.name for machine in MACHINES.values() for isa in machine]
    missing = [n for n in (*named, *ELSEWHERE, "native", "all") if n not in option.about]
    assert missing == []
