"""How much of prompts is found computed where several replicas answer, and where one does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edgewise import AsyncEngine
from serving.client import Server
from serving.load import closed_loop
from serving.traffic import Lengths, Session, sessions
from tests.sdk.ray.conftest import CPUS, KEY, MODEL, Cluster
from tests.sdk.ray.counting import numbers

SHARED = Lengths((8, 24), (4, 8), shared=256)
AGENT = Lengths((16, 32), (4, 8), shared=64, turns=4, between=(48, 80))
"""The loads of bench/serving, in small."""
STREAMS, SESSIONS = 4, 24
VOCAB = 256


def share_of_one(bundle: Path, asked: list[Session]) -> float:
    """The share of prompt tokens that one engine finds computed, asked by as many at a time."""

    async def ask() -> float:
        waiting = iter(asked)
        async with await AsyncEngine.load(bundle, context=4096) as engine:

            async def client() -> None:
                for session in waiting:
                    for turn in session.turns:
                        options = {"max_tokens": turn.tokens, "ignore_eos": True}
                        await engine.generate(list(turn.prompt), temperature=0.0, **options)

            await asyncio.gather(*(client() for _ in range(STREAMS)))
            said = engine.metrics()
            hits = sum(said["prefix_cache_hits_total"].values())
            return hits / said["prompt_tokens_total"]

    return asyncio.run(ask())


def share_through(url: str, asked: list[Session]) -> float:
    """The same of a server, by its own numbers."""
    before = numbers(url)
    parts = urlsplit(url)
    server = Server(parts.hostname or "", parts.port or 0, MODEL, KEY)
    seen = closed_loop(server, asked, STREAMS)
    assert [one.error for one in seen] == [""] * sum(len(one.turns) for one in asked)
    after = numbers(url)
    found = {name: value - before.get(name, 0) for name, value in after.items()}
    assert found["prompt_tokens_total"] == sum(one.prompt_tokens for one in seen)
    return found["prefix_cache_hits_total"] / found["prompt_tokens_total"]


@pytest.mark.parametrize("lengths", [SHARED, AGENT], ids=["shared", "agent"])
def test_two_replicas_find_nine_tenths_of_what_one_would(
    url: str, tiny: Path, lengths: Lengths
) -> None:
    asked = sessions(lengths, SESSIONS, VOCAB, f"routed {lengths.shared}")
    one = share_of_one(tiny, asked)
    assert one > 0.5
    assert share_through(url, asked) >= 0.9 * one


@pytest.mark.full
def test_turn_by_turn_conversations_are_computed_twice(cluster: Cluster, tiny: Path) -> None:
    """What the router is for: an agent's loop that goes to one replica after the other."""
    asked = sessions(AGENT, SESSIONS, VOCAB, "compared")
    with cluster.serving(tiny, replicas=2, context=4096, routing="turns") as url:
        turns = share_through(url, asked)
    # Replicas that take all there is leave no door without a place.
    with cluster.serving(tiny, replicas=2, context=4096, cpus=CPUS / 2) as url:
        prefix = share_through(url, asked)
    assert prefix > turns
