"""What is known of a checkpoint's weights without reading all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_compiler import fingerprint
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.quantize import find_preset


def test_codes_that_came_to_mean_something_else_are_other_weights(
    checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        params = checkpoint.family.params(checkpoint.model)
        schemes = linear_schemes(find_preset("q4"), params)
        before = fingerprint.weights_fingerprint(checkpoint, schemes)
        monkeypatch.setattr(fingerprint, "MEANING", fingerprint.MEANING + 1)
        assert fingerprint.weights_fingerprint(checkpoint, schemes) != before
