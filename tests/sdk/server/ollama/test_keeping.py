"""How long a model stays in memory is what clients ask for."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from edgewise.hosting.kept import PoolOptions
from edgewise.hosting.pool import Pool
from edgewise.server.app import make_app

MODEL = "tiny"
ASKED = {"model": MODEL, "prompt": "Hello", "stream": False, "options": {"num_predict": 2}}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_model_stays_as_long_as_a_client_says(thinking: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        options = PoolOptions(listed=False)
        pool = Pool({MODEL: str(thinking)}, options, clock=clock, available=lambda: None)
        transport = ASGITransport(make_app({}, {}, models=pool))
        async with AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(**more: Any) -> Any:
                answer = await client.post("/api/generate", json={**ASKED, **more})
                assert answer.status_code == 200, answer.text
                return answer.json()

            async def running() -> list[Any]:
                found: list[Any] = (await client.get("/api/ps")).json()["models"]
                return found

            def lasts(model: dict[str, Any]) -> float:
                return datetime.fromisoformat(model["expires_at"]).timestamp() - time.time()

            try:
                assert (await ask(prompt="", keep_alive=0))["done_reason"] == "unload"
                assert await running() == []  # nothing was loaded to leave again
                assert (await client.get("/api/tags")).json()["models"][0]["name"] == MODEL
                assert (await ask(keep_alive="10m"))["eval_count"] == 2
                [model] = await running()
                assert lasts(model) == pytest.approx(600, abs=60)
                await ask(keep_alive=-1)
                [model] = await running()
                assert model["expires_at"].startswith("9999")
                assert (await ask(prompt="", keep_alive=0))["done_reason"] == "unload"
                clock.now += 2
                await pool.tidy()
                assert await running() == []
                # A context is told while the model is still there.
                assert (await ask(keep_alive=0))["context"]
                shown = await client.post("/api/show", json={"model": MODEL})
                assert shown.json()["capabilities"] == [
                    "completion",
                    "tools",
                    "thinking",
                    "embedding",
                ]
            finally:
                await pool.close()

    asyncio.run(scenario())
