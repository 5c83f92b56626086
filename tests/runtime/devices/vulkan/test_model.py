"""A whole model under the validation layer: prompts, batches, bursts, and what they record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.targets.vulkan.variants import INT8_VARIANTS, VARIANTS
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.parity.driver import Driver
from tests.parity.sampled import sampled

pytestmark = pytest.mark.landing

PAGES = 32
PROMPT = [int(token) for token in np.random.default_rng(71).integers(0, 320, 40)]
NAMES = [variant.name for variant in (*VARIANTS, *INT8_VARIANTS)]


@pytest.mark.parametrize("name", sampled(NAMES, ["vulkan-f32-subgroups"]))
def test_the_layer_has_nothing_to_say_of_a_model(
    name: str, vulkan: VulkanDevice, bundles: BundleFactory
) -> None:
    bundle = Bundle.open(bundles("qwen3-gqa2-tied", "q4", targets=("vulkan",)))
    with vulkan.load(bundle, name, load_symbols={"pages": PAGES}) as program:
        driver = Driver(program, pages=PAGES)
        streams = [driver.stream(0), driver.stream(1)]
        driver.prefill([(streams[0], PROMPT), (streams[1], PROMPT[:17])])
        for k in (1, 4):
            driver.decode([(stream, PROMPT[0]) for stream in streams], k=k)
        [tokens], _ = driver.decode([(streams[0], PROMPT[0])], k=2)
        made = replace(program.counters)
        for _ in range(3):
            [tokens], logits = driver.decode([(streams[0], tokens[-1])], k=2)
        after = program.counters
        assert np.isfinite(logits).all()
        # These bursts were recorded with the first one. What else is submitted reads the logits.
        for what in ("buffers", "allocations", "pipelines", "descriptor_sets", "recordings"):
            assert getattr(after, what) == getattr(made, what)
        assert after.submits - made.submits <= 2 * 3
        # Some launches depend on none of those since the last barrier.
        assert 0 < after.barriers < after.dispatches
