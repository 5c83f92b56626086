"""Calls as a typed program makes them: mypy checks their types, `test_typed_calls` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import edgewise
from edgewise import Completion, Engine, RequestOptions, SamplingOptions, Stream

FEW = SamplingOptions(max_tokens=1)
HELLO = [{"role": "user", "content": "Hello"}]


def generate(engine: Engine, live: bool) -> list[object]:
    return [
        assert_type(engine.generate("A", sampling=FEW), Completion),
        assert_type(engine.generate([5], sampling=FEW, stream=False), Completion),
        assert_type(engine.generate("A", sampling=FEW, stream=True), Stream),
        assert_type(engine.generate("A", sampling=FEW, stream=live), Completion | Stream),
        assert_type(engine.generate(["A", "B"], sampling=FEW), list[Completion]),
    ]


def chat(engine: Engine, live: bool) -> list[object]:
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    return [
        assert_type(engine.chat(HELLO, sampling=FEW), Completion),
        assert_type(engine.chat(parts, sampling=FEW, stream=False), Completion),
        assert_type(engine.chat(HELLO, sampling=FEW, stream=True), Stream),
        assert_type(engine.chat(HELLO, sampling=FEW, stream=live), Completion | Stream),
        assert_type(engine.chat([HELLO, HELLO], sampling=FEW), list[Completion]),
    ]


def options(engine: Engine) -> Completion:
    kept: RequestOptions = {"sampling": FEW, "priority": 1, "seed": 7}
    return engine.generate("A", **kept)


def compiled(checkpoint: Path) -> Engine:
    return Engine(edgewise.compile(checkpoint, target=["cpu"], quant="q4", progress=print))
