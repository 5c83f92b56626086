"""What programs must answer, read and compared as web/tests/format/proof.test.ts does."""

from __future__ import annotations

import math

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.proof import Proof, bound_of
from tests.format.cases import Case, cases, what

KNOWN = Proof((0,), (0, 2), ((1000, -1000),))


@pytest.mark.parametrize("case", cases("proofs"), ids=what)
def test_a_proof_is_taken_or_refused(case: Case) -> None:
    if case["code"] is None:
        assert Proof.from_json(case["proof"], case["vocab"]).to_json() == case["proof"]
        return
    with pytest.raises(BundleError) as refused:
        Proof.from_json(case["proof"], case["vocab"])
    assert refused.value.code == case["code"]


@pytest.mark.parametrize("case", cases("distances"), ids=what)
def test_logits_are_compared_with_what_is_known(case: Case) -> None:
    assert round(1000 * KNOWN.distance(0, case["logits"])) == case["thousandths"]


def test_what_is_not_a_number_is_no_answer() -> None:
    assert math.isnan(KNOWN.distance(0, [math.nan, 0, 0]))


def test_how_far_they_may_be_off_depends_on_what_a_program_computes_in() -> None:
    assert [bound_of(name) for name in ("f32", "f16", "w4a8")] == [0.05, 0.1, 0.25]
