"""The cases in tests/format, which the TypeScript readers are held to as well (web/tests/format).

A case that is refused there and not here, or with another code, would be a bundle that runs on one
side only.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise_runtime.errors import (
    BundleError,
    DeviceError,
    EdgewiseError,
    PlanError,
    UnsupportedError,
)
from edgewise_runtime.format import abi
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import BundleManifest
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.programs import best_program
from edgewise_runtime.format.reading import parse_json
from edgewise_runtime.format.state import page_rows, paged_state, row_bytes
from tests.format.cases import Case, cases, edited, golden, what
from tests.format.make_goldens import BOUNDS, GOLDENS, MIXTURES, PROGRAM, facts, golden_plans
from tests.runtime import sample


def test_every_golden_reads_back_exactly() -> None:
    manifest = golden("bundle.json")
    assert BundleManifest.from_json(manifest).to_json() == manifest
    for case in MIXTURES:
        mixture = golden(f"mixtures/{case}.json")
        assert BundleManifest.from_json(mixture).to_json() == mixture
    for file, plan in golden_plans().items():
        assert Plan.from_json(plan).to_json() == plan, file


def test_what_plans_say_is_what_the_facts_say() -> None:
    assert json.loads(json.dumps(facts(golden_plans()))) == golden("facts.json")


def test_the_goldens_of_the_sample_are_the_sample() -> None:
    for name, plan in sample.plans().items():
        assert golden(f"sample/plans/{name}.json") == plan


def test_a_golden_program_agrees_with_its_manifest() -> None:
    manifest = BundleManifest.from_json(golden("bundle.json"))
    plans = Bundle(GOLDENS, manifest).plans(PROGRAM)
    operations = ["decode", "embed", "forward", "logits", "logprobs", "prefill", "sample"]
    assert sorted(plans) == operations


@pytest.mark.parametrize("case", cases("unsupported-states"), ids=what)
def test_no_program_can_be_run_of_a_bundle_with(case: Case) -> None:
    manifest = BundleManifest.from_json(edited(case))
    with pytest.raises(UnsupportedError) as refused:
        paged_state(manifest)
    assert refused.value.code == "unsupported.state"
    assert all(quoted in refused.value.message for quoted in case["quotes"])
    assert "compile the model again" in refused.value.remedy


def test_the_state_of_the_golden_can_be_run() -> None:
    manifest = BundleManifest.from_json(golden("bundle.json"))
    group = paged_state(manifest)
    assert (group.page_tokens, group.buffers) == (16, ("kv.0", "kv.1"))
    for program in manifest.programs:
        rows = page_rows(group, program.state_dtype).values()
        assert program.page_bytes == (sum(map(row_bytes, rows)),)


def test_both_languages_have_the_same_numbers() -> None:
    said = {name: value for name, value in vars(abi).items() if name.isupper()}
    assert cases("abi") == json.loads(json.dumps(said))


def test_both_languages_have_the_same_step_buffers() -> None:
    said = {"bounds": BOUNDS, "buffers": abi.shared_buffers(**BOUNDS)}
    assert cases("step-buffers") == json.loads(json.dumps(said))


@pytest.mark.parametrize("case", cases("plan-rejections"), ids=what)
def test_a_plan_is_refused_for(case: Case) -> None:
    with pytest.raises(PlanError) as refused:
        Plan.from_json(edited(case))
    assert refused.value.code == case["code"]
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("case", cases("manifest-rejections"), ids=what)
def test_a_manifest_is_refused_for(case: Case) -> None:
    def read() -> None:
        manifest = BundleManifest.from_json(edited(case))
        if "program" in case:
            Bundle(GOLDENS, manifest).plans(case["program"])

    with pytest.raises(BundleError) as refused:
        read()
    assert refused.value.code == case["code"]
    assert len(str(refused.value)) < 700


def written(case: Case) -> bytes:
    """The bytes of a text case: in hex, or pieces of which a pair is repeated."""
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    pieces = (piece if isinstance(piece, str) else piece[0] * piece[1] for piece in case["text"])
    return "".join(pieces).encode()


@pytest.mark.parametrize("case", cases("texts"), ids=what)
def test_a_text_is_refused_for(case: Case) -> None:
    def read() -> None:
        if case["reader"] == "plan":
            Plan.from_json(parse_json(written(case), "a plan", PlanError))
        else:
            BundleManifest.from_json(parse_json(written(case), "a manifest", BundleError))

    with pytest.raises(EdgewiseError) as refused:
        read()
    assert refused.value.code == case["code"]
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("case", cases("expressions"), ids=lambda case: str(case["expr"])[:40])
def test_an_expression_gives(case: Case) -> None:
    def ask() -> Any:
        expr = ex.parse(case["expr"])
        if "ranges" in case:
            return list(ex.bounds(expr, case["ranges"]))
        return ex.evaluate(expr, case["values"])

    if "code" in case:
        with pytest.raises(PlanError) as refused:
            ask()
        assert refused.value.code == case["code"]
    else:
        assert ask() == case["bounds" if "ranges" in case else "result"]


@pytest.mark.parametrize("case", cases("programs")["candidates"], ids=what)
def test_the_program_preferred_by(case: Case) -> None:
    manifest = BundleManifest.from_json(golden("bundle.json"))
    features = frozenset(case["features"])
    if case["candidates"]:
        best = best_program(manifest, features, target=case["target"])
        assert best.id == case["candidates"][0]
    else:
        with pytest.raises(DeviceError) as refused:
            best_program(manifest, features, target=case["target"])
        assert refused.value.code == "device.no_program"


@pytest.mark.parametrize("case", cases("programs")["entries"], ids=str)
def test_the_plan_for(case: Case) -> None:
    program = BundleManifest.from_json(golden("bundle.json")).program(case["program"])
    assert program.plan_for(case["operation"], case["values"]) == case["plan"]
