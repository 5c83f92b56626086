"""The engine for asyncio: requests run beside each other, and nothing blocks the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack
from weakref import finalize

import numpy as np
import numpy.typing as npt

from edgewise.cache import Progress
from edgewise.generation import AsyncGeneration
from edgewise.host import Host, Settings, one
from edgewise.options import RequestOptions
from edgewise.prompts import token_ids
from edgewise_runtime.bundle import ModelInfo
from edgewise_runtime.devices.base import Device
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.template import Message


class AsyncEngine:
    """A model loaded on a device, see `Engine`.

        async with await AsyncEngine.load("dist/demo-q4") as engine:
            answers = await asyncio.gather(*(engine.generate(p) for p in prompts))
            async for piece in engine.stream("Once upon a time"):
                print(piece, end="", flush=True)

    A task that is cancelled cancels its request.
    """

    def __init__(self, host: Host) -> None:
        """Use `load`."""
        self._host = host
        self._closing = finalize(self, host.close)

    @classmethod
    async def load(
        cls,
        bundle: str | Path,
        *,
        device: Device | str | None = None,
        program: str | None = None,
        threads: int | None = None,
        trust: bool = False,
        context: int | None = None,
        settings: Settings | None = None,
        progress: Progress | None = None,
    ) -> AsyncEngine:
        """Load a model; arguments and errors as for `Engine`. `progress` is called on a thread."""
        host = await asyncio.to_thread(
            lambda: Host(
                bundle,
                device=device,
                program=program,
                threads=threads,
                trust=trust,
                context=context,
                settings=settings or Settings(),
                progress=progress,
            )
        )
        return cls(host)

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._host.bundle.name

    @property
    def model(self) -> ModelInfo:
        """The model's shape and bounds."""
        return self._host.bundle.model

    @property
    def tokenizer(self) -> Tokenizer:
        """`encode` and `decode` of the model's tokenizer."""
        return self._host.tokenizer

    @property
    def context(self) -> int:
        """The most tokens of prompt and answer together."""
        return self._host.context

    @property
    def program(self) -> str:
        """Id of the program that runs."""
        return self._host.program.program.id

    def metrics(self) -> dict[str, Any]:
        """Counters, gauges and histograms at this moment, see `engine.metrics.FAMILIES`."""
        return self._host.metrics.snapshot()

    async def submit(
        self, prompt: str | list[int], **options: Unpack[RequestOptions]
    ) -> AsyncGeneration:
        """Ask for the continuation of one prompt; arguments and errors as for `Engine.submit`."""
        host = self._host
        choices = await asyncio.to_thread(
            lambda: host.choices(one(host.prompts(prompt)[0]), options)
        )
        return AsyncGeneration(host.loop, choices)

    async def submit_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGeneration:
        """Ask for the answer to a conversation; as `Engine.submit_chat`."""
        host = self._host
        choices = await asyncio.to_thread(host.chat_choices, messages, tools, variables, options)
        return AsyncGeneration(host.loop, choices)

    async def generate(
        self, prompt: str | list[int], **options: Unpack[RequestOptions]
    ) -> Completion:
        """Continue a prompt; arguments and errors as for `Engine.generate`."""
        return await (await self.submit(prompt, **options)).result()

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """Answer a conversation; arguments and errors as for `Engine.chat`."""
        generation = await self.submit_chat(messages, tools=tools, variables=variables, **options)
        return await generation.result()

    async def stream(
        self, prompt: str | list[int], **options: Unpack[RequestOptions]
    ) -> AsyncIterator[str]:
        """Yield pieces of text as they come; leaving the loop early cancels the request."""
        async with await self.submit(prompt, **options) as generation:
            async for piece in generation:
                if piece.text:
                    yield piece.text

    async def stream_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[str]:
        """Yield the pieces of an answer as they come; as `stream`."""
        asked = await self.submit_chat(messages, tools=tools, variables=variables, **options)
        async with asked as generation:
            async for piece in generation:
                if piece.text:
                    yield piece.text

    async def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the logits after each token; as `Engine.score`."""
        ids, loop = token_ids(tokens), self._host.loop
        return await asyncio.to_thread(loop.call, lambda: loop.engine.score(ids))

    async def close(self) -> None:
        """Cancel what is running and release the memory. Closing twice is fine."""
        self._closing.detach()
        await asyncio.to_thread(self._host.close)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
