"""What an actor makes of batches of rows, without Ray around it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from edgewise import EdgewiseError, Engine, InputError
from edgewise.hosting.loading import Loading
from edgewise.ray.answering import SCHEMA
from edgewise.ray.asking import Asking, Columns
from edgewise.ray.worker import Completing

PROMPTS = [f"{word} upon a time" for word in ("Once", "Twice", "Thrice", "Never", "Always", "Ever")]
PROMPT = Columns(prompt="prompt", options="options", key="id")
HOT = {"temperature": 1.0, "max_tokens": 8, "ignore_eos": True}


@pytest.fixture(scope="module")
def loaded(bundle: Path) -> Iterator[Completing]:
    worker = Completing(Loading(name="tiny", bundle=str(bundle)).load, Asking(columns=PROMPT), True)
    yield worker
    asyncio.run(worker.hosted.close())


def answered(loaded: Completing, asking: Asking, rows: list[dict[str, Any]], keep: bool = True):
    """The rows that come of rows, by a worker that is asked something else."""
    worker = loaded.asking_for(asking, keep)
    return asyncio.run(worker(pa.Table.from_pylist(rows))).to_pylist()


def rows_of(prompts: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": at, "prompt": prompt, "options": None, **more} for at, prompt in enumerate(prompts)
    ]


def test_rows_keep_their_columns_and_get_those_of_an_answer(
    loaded: Completing, engine: Engine
) -> None:
    rows = rows_of(PROMPTS, label="x")
    found = answered(loaded, Asking.of(PROMPT, HOT), rows)
    assert list(found[0]) == ["id", "prompt", "options", "label", *SCHEMA.names]
    for row, one in zip(rows, found, strict=True):
        assert {name: one[name] for name in row} == row
        alone = engine.generate(row["prompt"], seed=one["seed"], **HOT)
        assert (one["completion"], one["finish_reason"]) == (alone.text, "length")
        assert (one["prompt_tokens"], one["completion_tokens"]) == (alone.usage.prompt_tokens, 8)
        assert one["error"] is None
    assert len({row["seed"] for row in found}) == len(rows)
