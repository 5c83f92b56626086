"""A model of this tab's and one of a host's, by the names of `edgewise.AsyncEngine`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, NoReturn, Self

from edgewise_client.errors import AbsentError, errors_of_javascript
from edgewise_client.generation import Generation
from edgewise_client.javascript import from_js, module, options_to_js, to_js
from edgewise_client.options import js_options
from edgewise_client.results import Completion, ModelInfo, info_of

Message = Mapping[str, Any]

ABSENT = {
    "embed": "Ask a host for embeddings over HTTP.",
    "rerank": "Ask a host's /rerank over HTTP.",
    "score": "Use `edgewise.AsyncEngine`.",
    "pin": "Prefixes of earlier requests are found as long as there is room.",
    "unpin": "Prefixes of earlier requests are found as long as there is room.",
    "forget": "Close the engine, and load the model again.",
}
"""Methods of `edgewise.AsyncEngine` that are not here, and what to do without."""

ABSENT_OF_HOSTS = {"choices": "Ask as often as there shall be choices; they share KV pages."}


class JavaScriptEngine:
    """What `TabEngine` and `RemoteEngine` share, over what TypeScript calls `AnyEngine`.

        async with TabEngine(engine) as model:
            async for text in model.stream_chat([{"role": "user", "content": "Hello"}]):
                print(text, end="")

    Several requests may run at once. Options are those of `edgewise.AsyncEngine`, see
    `edgewise_client.options`. Errors are EdgewiseErrors with the engine's own codes.
    """

    def __init__(self, engine: Any) -> None:
        """Args: engine: an `Engine` or a `RemoteEngine` of TypeScript's, as JavaScript's object."""
        self._engine = engine

    @property
    def info(self) -> ModelInfo:
        """What is loaded."""
        return info_of(from_js(self._engine.info))

    async def submit(self, prompt: str | Sequence[int], **options: Any) -> Generation:
        """Ask for the continuation of a text or of token ids, and do not wait for it.

        Raises:
            UnsupportedError, InputError: options that there are not, see `js_options`.
        """
        asked = options_to_js(js_options(options, chat=False))
        given = prompt if isinstance(prompt, str) else [*prompt]
        with errors_of_javascript():
            return Generation(self._engine.generate(to_js("prompt", given), asked))

    async def submit_chat(self, messages: Sequence[Message], **options: Any) -> Generation:
        """Ask for the answer to a conversation, and do not wait for it; raises as `submit` does."""
        asked = options_to_js(js_options(options, chat=True))
        with errors_of_javascript():
            return Generation(self._engine.chat(to_js("messages", [*messages]), asked))

    async def generate(self, prompt: str | Sequence[int], **options: Any) -> Completion:
        """Continue a prompt.

        Raises:
            EdgewiseError: what the engine refuses, and what `submit` does.
        """
        return await (await self.submit(prompt, **options)).result()

    async def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Answer a conversation, by the model's own chat template; raises as `generate` does."""
        return await (await self.submit_chat(messages, **options)).result()

    def stream(self, prompt: str | Sequence[int], **options: Any) -> AsyncGenerator[str, None]:
        """Yield pieces of text as they come; closing the iterator stops the request."""
        return _texts(self.submit, prompt, options)

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> AsyncGenerator[str, None]:
        """Yield the pieces of an answer as they come; as `stream`."""
        return _texts(self.submit_chat, messages, options)

    async def close(self) -> None:
        """End what runs and give the memory back. Closing twice is fine."""
        with errors_of_javascript():
            await self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __getattr__(self, name: str) -> NoReturn:
        absent = ABSENT | ABSENT_OF_HOSTS
        if name in absent:
            raise AbsentError(f"A {type(self).__name__} has no {name}.", remedy=absent[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class TabEngine(JavaScriptEngine):
    """A model that runs in this tab, on WebGPU, in a worker of its own; see `JavaScriptEngine`."""

    @classmethod
    async def load(cls, bundle: str, *, library: Any, context: int | None = None) -> Self:
        """Load a bundle.

        Args:
            bundle: URL of the bundle's folder, such as ``/bundles/demo-q4/``.
            library: the JavaScript module `edgewise`, or its URL.
            context: most tokens of one conversation. Default: all that the bundle allows.

        Raises:
            EdgewiseError: such as ``device.adapter`` (no WebGPU) and ``store.network``.
        """
        options = options_to_js({} if context is None else {"context": context})
        with errors_of_javascript():
            return cls(await (await module(library)).Engine.load(bundle, options))

    async def choices(
        self, prompt: str | Sequence[int], *, n: int, **options: Any
    ) -> list[Completion]:
        """Continue a prompt in n ways, 1 to 64, which share its KV pages; raises as `generate`."""
        asked = options_to_js(js_options(options, chat=False) | {"n": n})
        given = prompt if isinstance(prompt, str) else [*prompt]
        with errors_of_javascript():
            running = self._engine.choices(to_js("prompt", given), asked)
        generations = [Generation(one) for one in running]
        try:
            return [await one.result() for one in generations]
        finally:
            for one in generations:
                one.cancel()


class RemoteEngine(JavaScriptEngine):
    """A model that a host runs, over a WebSocket (`edgewise.v1`); see `JavaScriptEngine`.

    A connection that breaks is opened again, and what was being written goes on.
    """

    @classmethod
    async def connect(
        cls, host: str, *, library: Any, model: str | None = None, key: str | None = None
    ) -> Self:
        """Ask a host.

        Args:
            host: its URL, such as ``https://localhost:8321``.
            library: the JavaScript module `edgewise/host`, or its URL.
            model: its name there. Default: the first that the host has.
            key: what the host wants of programs, where it wants a key.

        Raises:
            EdgewiseError: ``host.gone``, ``host.key``, ``host.model``, ``host.wrong``.
        """
        given = {"host": host, "model": model, "key": key}
        options = options_to_js({name: one for name, one in given.items() if one is not None})
        with errors_of_javascript():
            return cls(await (await module(library)).RemoteEngine.connect(options))


async def _texts(
    submit: Callable[..., Awaitable[Generation]], asked: object, options: Mapping[str, Any]
) -> AsyncGenerator[str, None]:
    async with aclosing((await submit(asked, **options)).__aiter__()) as pieces:
        async for piece in pieces:
            if piece.text:
                yield piece.text
