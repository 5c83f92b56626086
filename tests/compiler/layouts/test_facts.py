"""What layouts make of families' parameters is what readers compare a model's numbers with."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from edgewise_compiler.layouts.base import Layout
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.models.base import Family, ModelConfig
from edgewise_compiler.models.families import FAMILIES
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.state import state_group
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.facts import check_facts
from edgewise_runtime.format.manifest import BundleManifest, ModelInfo, TensorEntry
from tests.compiler.models.test_families import CONFIGS

SIZES = {
    "tiny": {},
    "odd": {"hidden": 96, "heads": 3, "kv_heads": 1, "head_dim": 16, "vocab": 321, "tied": True},
    # Matrices that no binding of a GPU holds, which are split by rows.
    "wide": {"hidden": 8192, "intermediate": 28673, "vocab": 151937, "heads": 64, "head_dim": 128},
    "biased": {"attention_bias": True, "mlp_bias": True, "layers": 11},
}


def manifest(cfg: ModelConfig, family: Family, layout: Layout, quant: str) -> BundleManifest:
    """The manifest of a bundle without files or programs."""
    params = tuple(family.params(cfg))
    tensors = layout_tensors(layout, linear_schemes(find_preset(quant), params), params, 256)
    known = {name: asdict(cfg)[name] for f in fields(ModelInfo) if (name := f.name) in asdict(cfg)}
    bounds = {"context": 256, "max_batch": 1, "prefill_chunk": 1, "quant": quant}
    entries = {
        name: TensorEntry("params", spec.dtype, spec.shape, 0, spec.bytes)
        for name, spec in tensors.items()
    }
    return BundleManifest(
        name="tiny",
        model=ModelInfo(**known | bounds),
        weights_id="0" * 64,
        created_by={},
        state_groups=(state_group(range(cfg.layers), cfg.kv_heads, cfg.head_dim, scales=False),),
        layouts={layout.name: entries},
        programs=(),
        files={},
    )


@pytest.mark.parametrize("quant", ["f32", "f16", "q8", "q6", "q4", "balanced"])
@pytest.mark.parametrize("layout", [CPU, GPU], ids=lambda layout: layout.name)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_models_numbers_are_those_of_its_tensors(
    family: Family, size: str, layout: Layout, quant: str
) -> None:
    cfg = replace(CONFIGS[family.name], **SIZES[size])
    made = manifest(cfg, family, layout, quant)
    check_facts(made)
    model = made.model
    others = {"hidden": 32, "layers": 1, "heads": 2, "head_dim": 16, "intermediate": 32}
    if cfg.mixture is not None and len(cfg.mixture.layers) == cfg.layers:
        del others["intermediate"]  # of layers that have one MLP: it says nothing of experts
    for name, more in (others | {"vocab": 32, "kv_heads": 1, "context": 1}).items():
        wrong = replace(model, **{name: getattr(model, name) + more})
        with pytest.raises(BundleError) as refused:
            check_facts(replace(made, model=wrong))
        assert refused.value.code == "bundle.model"


@pytest.mark.parametrize("layout", [CPU, GPU], ids=lambda layout: layout.name)
def test_each_part_of_a_linear_has_whole_codes(layout: Layout) -> None:
    family = next(family for family in FAMILIES if family.name == "llama")
    cfg = replace(CONFIGS[family.name], **SIZES["wide"])
    made = manifest(cfg, family, layout, "balanced")
    entries = dict(made.layouts[layout.name])
    first, second = entries["embed.0.weight"], entries["embed.1.weight"]
    # As many bytes in all, which no scheme has for these rows.
    entries["embed.0.weight"] = replace(first, bytes=first.bytes - 4096)
    entries["embed.1.weight"] = replace(second, bytes=second.bytes + 4096)
    with pytest.raises(BundleError, match="rows of 8192") as refused:
        check_facts(replace(made, layouts={layout.name: entries}))
    assert refused.value.code == "bundle.model"
