"""An answer whose model ends before it does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError, Stream
from anthropic.types import RawMessageStreamEvent

from edgewise.hosting.base import Hosted
from edgewise.hosting.loading import Loading
from edgewise.hosting.worker import Worker
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from tests.sdk.server.anthropic.conftest import MODEL, QUESTION, Served
from tests.sdk.server.models import Some

CONTEXT = 1 << 16
ENDLESS: dict[str, Any] = {
    "model": MODEL,
    "messages": QUESTION,
    "max_tokens": CONTEXT,
    "thinking": {"type": "disabled"},
    "output_config": {
        "format": {"type": "json_schema", "schema": {"type": "string", "minLength": 50_000}}
    },
}
"""What takes long to answer, and ends no sooner."""


class Children(Some):
    """A model in a process of its own, started on the loop of the server that asks for it."""

    def __init__(self, bundle: Path) -> None:
        super().__init__({})
        self._loading = Loading(name=MODEL, bundle=str(bundle), context=CONTEXT)
        self.process = 0

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        if name not in self._hosted:
            worker = await Worker.load(self._loading)
            self.process = worker.process
            self._hosted[name] = worker
        return await super().get(name)


def test_the_stream_of_a_model_that_died_ends_with_an_error(served: Served) -> None:
    models = Children(served.bundle)
    kinds: list[str] = []

    def read(stream: Stream[RawMessageStreamEvent]) -> None:
        for event in stream:
            kinds.append(event.type)
            if event.type == "content_block_delta" and models.process:
                os.kill(models.process, signal.SIGKILL)
                models.process = 0

    app = make_app({}, {}, models=models)
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        Anthropic(base_url=url, api_key="any", max_retries=0) as client,
        client.messages.create(**ENDLESS, stream=True) as stream,
        pytest.raises(APIStatusError) as raised,
    ):
        read(stream)
    assert raised.value.type == "api_error"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") > 0
    assert kinds[-1] == "content_block_stop"
