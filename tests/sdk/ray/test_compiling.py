"""A model that is no bundle yet: every node compiles it for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from openai import OpenAI

from edgewise import Engine
from tests.sdk.hub.small_hub import SmallHub
from tests.sdk.ray.conftest import MODEL, Cluster

PROMPT = [7] * 20
NAMES = {"folder": "llama-mha", "hub": "llama"}
"""What is compiled is called by where it came from."""


@pytest.mark.full
@pytest.mark.parametrize("kind", NAMES)
def test_a_checkpoint_is_compiled_where_it_is_served(
    cluster: Cluster, hub_servers: SmallHub, checkpoints: Callable[[str], Path], kind: str
) -> None:
    folder = checkpoints("llama-mha")
    hub_servers.add("tiny/llama", {path.name: path.read_bytes() for path in folder.iterdir()})
    model = folder if kind == "folder" else "hf:tiny/llama"
    with (
        cluster.serving(model, name=MODEL, replicas=2, context=256) as url,
        OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
    ):
        more = {"ignore_eos": True}
        done = client.completions.create(
            model=MODEL, prompt=PROMPT, max_tokens=8, temperature=0.0, extra_body=more
        )
    # Codes that were calibrated depend on how many threads NumPy has: theirs are compared with.
    (kept,) = cluster.cache.glob(f"bundles/{NAMES[kind]}-balanced-*")
    with Engine(kept, context=256, trust=True) as engine:
        said = engine.generate(PROMPT, max_tokens=8, temperature=0.0, ignore_eos=True)
    assert done.choices[0].text == said.text
    assert said.usage.completion_tokens == 8
