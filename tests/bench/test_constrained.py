"""What the benchmark of answers under a schema tells."""

from __future__ import annotations

import pytest

from constrained import constrained
from tests.conftest import BundleFactory


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_measures_a_batch_free_and_under_a_schema(bundles: BundleFactory) -> None:
    found = constrained(bundles("llama-mha"), threads=1, tokens=24, rounds=2, masks=20)
    assert found["objects_over_free"] > 0
    assert found["text_over_free"] > 0
    assert found["free_tok_s"] > 0
    for name in ("compile_ms", "mask_ms", "made_mask_ms", "kept_mask_us"):
        assert 0 < found[f"{name}_median"] <= found[f"{name}_p99"]
