"""The table of targets, and bundles with programs for targets that are not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format.bundle import Bundle, choose_program
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.targets import TARGETS, is_native, processor_of
from tests.runtime import sample


def test_only_wgsl_is_data() -> None:
    assert [name for name in TARGETS if not is_native(name)] == ["webgpu"]
    # Whatever else there may be once, it is not loaded without trust.
    assert is_native("abacus")


def test_what_an_unknown_target_runs_on_is_called_by_its_name() -> None:
    assert [processor_of(name) for name in ("cpu", "webgpu", "abacus")] == ["CPU", "GPU", "abacus"]


def test_a_program_for_an_unknown_target_is_read_and_never_chosen(tmp_path: Path) -> None:
    manifest = sample.write_bundle(tmp_path / "tiny")
    (known,) = manifest["programs"]
    strange = known | {"id": "abacus-f32", "target": "abacus"}
    sample.write_manifest(tmp_path / "tiny", manifest | {"programs": [strange, known]})
    bundle = Bundle.open(tmp_path / "tiny")
    assert [program.target for program in bundle.manifest.programs] == ["abacus", "cpu"]
    assert bundle.manifest.to_json()["programs"][0] == strange
    assert choose_program(bundle, frozenset(), target="cpu").target == "cpu"


@pytest.mark.parametrize("target", ["abacus", "", "CPU"])
def test_a_plan_for_an_unknown_target_is_refused_read_or_made(target: str) -> None:
    value = sample.plans()["prefill"]
    with pytest.raises(PlanError) as error:
        Plan.from_json(value | {"target": target})
    assert error.value.code == "plan.target"
    made = Plan.from_json(value)
    with pytest.raises(PlanError, match=repr(target)) as error:
        Plan(target, target, made.symbols, made.buffers, made.kernels, made.steps, made.host)
    assert error.value.code == "plan.target"
