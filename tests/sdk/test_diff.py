"""Comparing programs: the first kernel that departs is the one that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise.cli.diff import Side
from edgewise.cli.main import main
from edgewise.diff import DECADES, compare, default_tolerance, report, run_program, run_transformers
from edgewise_compiler.compile import compile_model
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import Needs, Program
from tests.conftest import BundleFactory
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import make_weights, write_checkpoint
from tests.parity.storing import write_weights

CASE = "llama-mha"
TOKENS = tuple(range(5, 45))


def first_program(path: Path) -> str:
    return Bundle.open(path).manifest.programs[0].id


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory, own_data_folder: None) -> Path:
    """The same model with one weight of one layer changed."""
    folder = tmp_path_factory.mktemp("wrong")
    checkpoint = write_checkpoint(CASE, folder)
    weights = make_weights(CASES[CASE])
    weights["model.layers.1.mlp.up_proj.weight"][7, 9] += 1.0
    write_weights(checkpoint, weights, "F32", 1)
    return compile_model(checkpoint, folder / "bundle", quant="f32", prefill_chunk=128)


def test_a_wrong_weight_is_found_at_the_kernel_that_uses_it(
    bundles: BundleFactory, wrong: Path
) -> None:
    right = bundles(CASE, "f32")
    outputs = [
        run_program(Bundle.open(path), first_program(path), TOKENS, rows=4)
        for path in (wrong, right)
    ]
    result = report(("wrong", "right"), outputs[0], outputs[1], len(TOKENS), 0.0)
    assert result.first is not None
    assert result.first.label == "prefill/layers.1.gate_up"
    assert result.first.max_abs > 0


def test_the_command_names_the_kernel_and_fails(
    bundles: BundleFactory, wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(wrong), str(bundles(CASE, "f32"))]) == 1
    assert "prefill/layers.1.gate_up" in capsys.readouterr().out


def test_programs_of_other_vocabularies_are_refused(bundles: BundleFactory) -> None:
    bundle = Bundle.open(bundles(CASE, "f32"))
    with pytest.raises(InputError, match=r"token 320, .* 0 to 319"):
        run_program(bundle, bundle.manifest.programs[0].id, [5, 320], rows=1)


def test_a_program_equals_itself(
    bundles: BundleFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundles(CASE, "q4")
    assert main(["diff", f"{path}:{first_program(path)}", str(path), "--all"]) == 0
    out = capsys.readouterr().out
    assert "No kernel departs" in out
    assert "layers.0.qkv" in out


def test_q4_is_near_f32_but_not_equal(bundles: BundleFactory) -> None:
    paths = bundles(CASE, "q4"), bundles(CASE, "f32")
    outputs = [run_program(Bundle.open(p), first_program(p), TOKENS, rows=4) for p in paths]
    result = report(("q4", "f32"), outputs[0], outputs[1], len(TOKENS), 0.0)
    assert result.first is not None
    assert result.first.label == "embed/embed"
    assert 0.0 < result.first.relative < 0.2
    assert any(d.label.endswith("attn_norm") for d in result.differences), "a8 is multiplied out"


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_f32_departs_nowhere_from_transformers(
    case: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    bundle = Bundle.open(bundles(case, "f32"))
    ours = run_program(bundle, bundle.manifest.programs[0].id, TOKENS, rows=8)
    width = bundle.model.head_dim
    theirs = run_transformers(checkpoints(case), TOKENS, rows=8, head_dim=width)
    tolerance = default_tolerance({"f32", "transformers"})
    result = report(("ours", "transformers"), ours, theirs, len(TOKENS), tolerance)
    assert result.first is None
    assert len(result.differences) >= 15
    assert result.top1 == 1.0


@pytest.mark.full
def test_pages_of_codes_may_differ_from_floats_but_not_from_each_other(
    bundles: BundleFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    floats, codes = bundles(CASE, "f32"), bundles(CASE, "f32", cpu="all", kv="int8")
    assert main(["diff", str(codes), str(floats)]) == 0
    assert "tolerance 0.5" in capsys.readouterr().out
    here = CpuDevice().features()
    programs = Bundle.open(codes).manifest.programs
    paths = [f"{codes}:{p.id}" for p in programs if not p.needs.missing(here)]
    assert main(["diff", paths[0], paths[-1]]) == 0
    assert "tolerance 0\n" in capsys.readouterr().out


def test_too_many_tokens_and_no_common_kernel_are_clear_errors(bundles: BundleFactory) -> None:
    path = bundles(CASE, "q4")
    with pytest.raises(InputError, match="129 tokens"):
        run_program(Bundle.open(path), first_program(path), [5] * 129, rows=1)
    with pytest.raises(InputError, match="no kernel output in common"):
        report(("a", "b"), {"x": np.zeros((1, 2), np.float32)}, {}, 1, 0.0)


def test_errors_fall_into_the_right_decades() -> None:
    reference = np.ones((1, 6), np.float32)
    errors = np.array([[0.0, 3e-7, 0.05, 0.5, 20.0, np.inf]], np.float32)
    found = compare("k", reference + errors, reference).histogram
    assert sum(found) == 6
    names = ["equal", *(10.0**n for n in DECADES), "more"]
    at = dict(zip(names, found, strict=True))
    # 1 + 3e-7 is 1 + 2.4e-7 or 1 + 3.6e-7 in float32.
    assert at["equal"] == 1
    assert at[1e-6] == 1
    assert at[1e-1] == 1
    assert at[1.0] == 1
    assert at["more"] == 2


def test_a_difference_from_nothing_but_zeros_is_infinite() -> None:
    difference = compare("k", np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32))
    assert difference.relative == float("inf")


def side(target: str, name: str, arithmetic: str = "w4a8", kv: str = "float16") -> Side:
    needs = Needs(None, ())
    program = Program(name, target, arithmetic, target, needs, None, {}, {}, kv, (64,), True, {})
    return Side(name, Path(), program, "q4")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (side("cpu", "avx2"), side("cpu", "avx512vnni"), True),
        (side("cpu", "avx2"), side("cpu", "float", "f32"), False),
        (side("cpu", "avx2"), side("cpu", "avx2", kv="int8"), False),
        (side("webgpu", "one"), side("webgpu", "one"), True),
        (side("webgpu", "one"), side("webgpu", "other"), False),
        (side("abacus", "one"), side("abacus", "other"), False),
        (side("cpu", "one"), side("webgpu", "other"), False),
    ],
)
def test_programs_promise_the_same_bits_where_their_target_does(
    a: Side, b: Side, same: bool
) -> None:
    assert a.same_bits(b) == b.same_bits(a) == same
