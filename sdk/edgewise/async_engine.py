"""The engine for asyncio: requests run beside each other, and nothing blocks the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from edgewise.async_generation import AsyncGeneration
from edgewise.cache import Progress
from edgewise.host import Host, one, single
from edgewise.loaded import Loaded
from edgewise.options import RequestOptions, SubmitOptions
from edgewise.prompts import token_ids
from edgewise.settings import Settings, drafting
from edgewise_runtime.devices.base import Device
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.text.template import Message


class AsyncEngine(Loaded):
    """A model loaded on a device, see `Engine`.

        async with await AsyncEngine.load("dist/demo-q4") as engine:
            answers = await asyncio.gather(*(engine.generate(p) for p in prompts))
            async for piece in engine.stream("Once upon a time"):
                print(piece, end="", flush=True)

    A task that is cancelled cancels the request that it waits for.
    """

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
        draft: str | Path | None = None,
        progress: Progress | None = None,
    ) -> AsyncEngine:
        """Load a model; arguments and errors as for `Engine`. `progress` is called on a thread."""

        def load() -> AsyncEngine:
            host = Host(
                bundle,
                device=device,
                program=program,
                threads=threads,
                trust=trust,
                context=context,
                settings=drafting(settings, draft),
                progress=progress,
            )
            return cls(host)

        return await asyncio.to_thread(load)

    async def submit(
        self, prompt: str | list[int], **options: Unpack[SubmitOptions]
    ) -> AsyncGeneration:
        """Ask for the continuation of one prompt; arguments and errors as for `Engine.submit`."""
        return self._start(await asyncio.to_thread(self._asked, prompt, options))

    async def submit_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> AsyncGeneration:
        """Ask for the answer to a conversation; as `Engine.submit_chat`."""
        ask = self._host.chat_choices
        return self._start(await asyncio.to_thread(ask, messages, tools, variables, options))

    async def generate(
        self, prompt: str | list[int], **options: Unpack[RequestOptions]
    ) -> Completion:
        """Continue one prompt; arguments and errors as for `Engine.generate`."""
        asked = await asyncio.to_thread(self._asked, prompt, options)
        return await self._start(single(asked)).result()

    async def choices(
        self, prompt: str | list[int], *, n: int, **options: Unpack[RequestOptions]
    ) -> list[Completion]:
        """Continue a prompt in n ways; as `Engine.choices`."""
        asked = await asyncio.to_thread(self._asked, prompt, {**options, "n": n})
        return await self._start(asked).results()

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """Answer a conversation; arguments and errors as for `Engine.chat`."""
        ask = self._host.chat_choices
        asked = await asyncio.to_thread(ask, messages, tools, variables, options)
        return await self._start(single(asked)).result()

    async def stream(
        self, prompt: str | list[int], **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[str, None]:
        """Yield pieces of text as they come; closing the iterator cancels the request."""
        asked = await asyncio.to_thread(self._asked, prompt, options)
        generation = self._start(single(asked))
        try:
            async for piece in generation:
                if piece.text:
                    yield piece.text
        finally:
            # Without waiting for the step in progress: who was cancelled wants to be done.
            generation.cancel()

    async def stream_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of an answer as they come; as `stream`."""
        ask = self._host.chat_choices
        asked = await asyncio.to_thread(ask, messages, tools, variables, options)
        generation = self._start(single(asked))
        try:
            async for piece in generation:
                if piece.text:
                    yield piece.text
        finally:
            # Without waiting for the step in progress: who was cancelled wants to be done.
            generation.cancel()

    async def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the logits after each token; as `Engine.score`."""
        ids, loop = token_ids(tokens), self._host.loop
        return await asyncio.to_thread(loop.call, lambda: loop.engine.score(ids))

    async def pin(self, prompt: str | list[int]) -> int:
        """Compute a prefix and keep its KV pages until `unpin`; as `Engine.pin`."""
        ids, engine = await self._ids(prompt), self._host.loop.engine
        await self._start([engine.pin(ids)]).result()
        return await asyncio.to_thread(self._host.loop.call, lambda: engine.pinned(ids))

    async def unpin(self, prompt: str | list[int]) -> None:
        """Let a pinned prefix go when its room is needed."""
        ids, engine = await self._ids(prompt), self._host.loop.engine
        await asyncio.to_thread(self._host.loop.call, lambda: engine.unpin(ids))

    async def forget(self) -> None:
        """Drop the KV pages of all prefixes that are not pinned, wherever they are kept."""
        await asyncio.to_thread(self._host.loop.call, self._host.loop.engine.forget)

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

    async def _ids(self, prompt: str | list[int]) -> tuple[int, ...]:
        return await asyncio.to_thread(lambda: one(self._host.prompts(prompt)[0]))

    def _asked(self, prompt: str | list[int], options: Mapping[str, Any]) -> list[Choice]:
        return self._host.choices(one(self._host.prompts(prompt)[0]), options)

    def _start(self, choices: Sequence[Choice]) -> AsyncGeneration:
        return AsyncGeneration(self._host.loop, choices, owner=self)
