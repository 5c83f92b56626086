"""The engine for asyncio: requests run beside each other, and nothing blocks the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Unpack

import numpy as np
import numpy.typing as npt

from edgewise.answers import Completion
from edgewise.async_generation import AsyncGeneration
from edgewise.cache import Progress
from edgewise.embedding import as_asked, begin_beside
from edgewise.options import RequestOptions, SubmitOptions, documents
from edgewise.prompt import token_ids
from edgewise.reranking import Ranked, ranked, texts_to_embed
from edgewise.session import Loaded, Session, Submission
from edgewise.settings import Settings, drafting
from edgewise.tools import ToolLike
from edgewise_runtime.devices.base import Device
from edgewise_runtime.engine.pooling import Pooling
from edgewise_runtime.text.template import Message
from edgewise_runtime.trust import Trust

P = ParamSpec("P")


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
        trust: Trust = False,
        context: int | None = None,
        settings: Settings | None = None,
        draft: str | Path | None = None,
        progress: Progress | None = None,
    ) -> AsyncEngine:
        """Load a model; arguments and errors as for `Engine`. `progress` is called on a thread."""

        def load() -> AsyncEngine:
            session = Session(
                bundle,
                device=device,
                program=program,
                threads=threads,
                trust=trust,
                context=context,
                settings=drafting(settings, draft),
                progress=progress,
            )
            return cls(session)

        return await asyncio.to_thread(load)

    @documents(SubmitOptions)
    async def submit(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> AsyncGeneration:
        """Ask for the continuation of one prompt; arguments and errors as for `Engine.submit`."""
        return await self._started(self._session.ask, prompt, tools, options, several=True)

    @documents(SubmitOptions)
    async def submit_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> AsyncGeneration:
        """Ask for the answer to a conversation; as `Engine.submit_chat`."""
        ask = self._session.ask_chat
        return await self._started(ask, messages, tools, variables, options, several=True)

    @documents(RequestOptions)
    async def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """Continue one prompt; arguments and errors as for `Engine.generate`."""
        return await (await self._started(self._session.ask, prompt, tools, options)).result()

    @documents(RequestOptions)
    async def choices(
        self,
        prompt: str | list[int],
        *,
        n: int,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]:
        """Continue a prompt in n ways; as `Engine.choices`."""
        asked = {**options, "n": n}
        generation = await self._started(self._session.ask, prompt, tools, asked, several=True)
        return await generation.results()

    @documents(RequestOptions)
    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """Answer a conversation; arguments and errors as for `Engine.chat`."""
        ask = self._session.ask_chat
        return await (await self._started(ask, messages, tools, variables, options)).result()

    @documents(RequestOptions)
    def stream(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield pieces of text as they come; closing the iterator cancels the request.

        Thoughts and calls come with the pieces of `submit` and `submit_chat`.
        """
        return self._texts(self._session.ask, prompt, tools, options)

    @documents(RequestOptions)
    def stream_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of an answer as they come; as `stream`."""
        return self._texts(self._session.ask_chat, messages, tools, variables, options)

    async def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the logits after each token; as `Engine.score`."""
        ids, loop = token_ids(tokens), self._session.loop
        return await asyncio.to_thread(loop.call, lambda: loop.engine.score(ids))

    async def embed(
        self,
        texts: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]],
        *,
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return a vector for each text; as `Engine.embed`."""
        begun = await begin_beside(self._session, texts, pooling, truncate=truncate, prompt=prompt)
        return as_asked(self._session, await begun.wait(), normalize)

    async def rerank(
        self, query: str, documents: Sequence[str], *, instruction: str | None = None
    ) -> list[Ranked]:
        """Put documents in order, the nearest to a query first; as `Engine.rerank`."""
        session = self._session
        texts, pooling = await asyncio.to_thread(
            texts_to_embed, session, query, documents, instruction
        )
        begun = await begin_beside(session, texts, pooling, truncate=False)
        return ranked(session, await begun.wait())

    async def pin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> int:
        """Compute a prefix and keep its KV pages until `unpin`; as `Engine.pin`."""
        pinning = self._session.pinning
        ids, extras, engine = await asyncio.to_thread(pinning, prompt, cache_salt)
        await self._start(Submission([engine.pin(ids, extras)])).result()
        call = self._session.loop.call
        return await asyncio.to_thread(call, lambda: engine.pinned(ids, extras))

    async def unpin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> None:
        """Let a prefix that was pinned with this salt go when its room is needed."""
        pinning, call = self._session.pinning, self._session.loop.call
        ids, extras, engine = await asyncio.to_thread(pinning, prompt, cache_salt)
        await asyncio.to_thread(call, lambda: engine.unpin(ids, extras))

    async def forget(self) -> None:
        """Drop the KV pages of all prefixes that are not pinned, wherever they are kept."""
        await asyncio.to_thread(self._session.forget)

    async def close(self) -> None:
        """Cancel what is running and release the memory. Closing twice is fine."""
        self._closing.detach()
        await asyncio.to_thread(self._session.close)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _started(
        self, ask: Callable[P, Submission], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGeneration:
        """Submit what a method of the session makes of its arguments, which may take a while."""
        return self._start(await asyncio.to_thread(ask, *args, **kwargs))

    async def _texts(
        self, ask: Callable[P, Submission], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[str, None]:
        generation = await self._started(ask, *args, **kwargs)
        try:
            async for piece in generation:
                if piece.text:
                    yield piece.text
        finally:
            # Without waiting for the step in progress: who was cancelled wants to be done.
            generation.cancel()

    def _start(self, submission: Submission) -> AsyncGeneration:
        return AsyncGeneration(self._session.loop, submission, owner=self)
