"""q4k, whose groups fill no tiny checkpoint's columns, on the demo model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.kernels.cpu.isa import ISAS
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.targets.webgpu.variants import VARIANTS
from edgewise_runtime.cpuid import cpu_features
from tests.parity import reference
from tests.parity.test_parity import FIRST_ROW_TOLERANCE, ROUNDING_NOISE, median_error, rms
from tests.parity.test_parity_webgpu import F16_NOISE, holds_over_half

pytestmark = pytest.mark.full

DEMO = Path(__file__).parents[2] / "examples/demo-model"
TEXT = "Once upon a time a fox asked: what is 3 plus 4? The owl said that it is 7."
ALONE = range(300, 309)
"""Tokens looked at by themselves: in one of some ten or twenty a rounding falls to another side."""


def test_every_program_computes_with_its_weights(tmp_path: Path) -> None:
    q4k = SCHEMES["q4k"]
    weights = {
        name: q4k.dequantize(q4k.quantize(values.copy())) if values.ndim == 2 else values
        for name, values in reference.load_weights(DEMO).items()
    }
    bundle = compile_model(
        DEMO, tmp_path / "demo", targets=("cpu", "webgpu"), quant="q4k", cpu="all", context=256
    )
    with open_checkpoint(DEMO) as checkpoint:
        cfg = checkpoint.model
    paths = [isa.name for isa in ISAS.values() if cpu_features().issuperset(isa.features)]
    found = {}
    for program in [*(f"cpu-w4a8-{path}" for path in paths), *(v.name for v in VARIANTS)]:
        device = "wgpu" if program.startswith("webgpu") else "cpu"
        with Engine(bundle, device=device, program=program) as engine:
            tokens = engine.tokenizer.encode(TEXT)
            found[program] = engine.score(tokens)
            if device == "cpu":
                first = [engine.score([token])[0] for token in ALONE]
                alone = [
                    reference.logits(cfg, weights, [token], a8=True, kv="float16")[0]
                    for token in ALONE
                ]
                assert median_error(first, alone) / np.std(alone) < FIRST_ROW_TOLERANCE, program
                best = found[program].argmax(axis=1)[-1]
                assert engine.generate(tokens, max_tokens=1, temperature=0).token_ids[0] == best
    exact = reference.logits(cfg, weights, tokens)
    halved = reference.logits(cfg, weights, tokens, kv="float16")
    for program, logits in found.items():
        noise = rms((logits - exact) / exact.std())
        if program.startswith("cpu"):
            assert np.array_equal(logits, found[f"cpu-w4a8-{paths[0]}"]), program
            assert noise < ROUNDING_NOISE, program
        elif "f32" in program:
            holds_over_half(logits, halved)
        else:
            assert noise < F16_NOISE, program
