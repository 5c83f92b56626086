"""The engine: a compiled model, ready to generate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from edgewise.answers import Completion
from edgewise.cache import Progress
from edgewise.embedding import as_asked, begin
from edgewise.generation import Generation, Stream, run_together
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


class Engine(Loaded):
    """A model loaded on a device.

        with Engine("dist/demo-q4") as engine:
            print(engine.generate("Once upon a time", max_tokens=40).text)
            for piece in engine.chat([{"role": "user", "content": "Hello"}], stream=True):
                print(piece, end="", flush=True)

    Any thread may call it, as many at a time as you like: all requests run together, and every
    answer is the same as if it had been asked for alone. `AsyncEngine` is the same for asyncio.
    """

    def __init__(
        self,
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
    ) -> None:
        """Load a model.

        Args:
            bundle: a bundle, by its folder or its name in `edgewise ls`; or a checkpoint: a folder
                in Hugging Face layout, a GGUF file, or ``hf:ORG/REPO`` at a hub, which is fetched.
                It is compiled once, as `edgewise.compile` does unless told otherwise, into
                ``$XDG_CACHE_HOME/edgewise/bundles``.
            device: what to run on: a device, or the name of one as `edgewise doctor` lists them,
                such as ``"wgpu:1"``. Default: what `program` is for, and else the first kind in
                that list that the bundle has a program for, which begins with the CPU.
            program: id of the program to run. Default: the best that fits the device.
            threads: threads for kernels on the CPU. Default: one per physical core.
            trust: load native code that this user did not compile: True for whatever comes, or the
                digests of programs that were vouched for where they were compiled
                (`edgewise_runtime.trust.vouched`). Default: False, refuse it.
            context: tokens of a sequence, prompt and answer, at most: fewer save memory. Default:
                all that the bundle allows, or as many of them as memory has room for, with a
                warning; `context` of the engine says how many these are.
            settings: how requests share the device, and where prefixes are kept. Default:
                ``Settings()``.
            draft: short for ``Settings(draft=...)``. Default: no guesses.
            progress: called with the phase, and how much of how much of it is done, for instance
                ``("Packing weights", 3, 8)``; their unit differs from phase to phase. Default: bars
                while a checkpoint is compiled, if the standard error is a terminal.

        Raises:
            EdgewiseError: whatever is wrong, with a code and what to do about it.
        """
        super().__init__(
            Session(
                bundle,
                device=device,
                program=program,
                threads=threads,
                trust=trust,
                context=context,
                settings=drafting(settings, draft),
                progress=progress,
            )
        )

    @documents(SubmitOptions)
    def submit(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Generation:
        """Ask for the continuation of one prompt, and do not wait for it.

        Args:
            prompt: as for `generate`.
            tools: as for `generate`.
            options: below.

        Raises:
            InputError: as `generate` does.
            EngineError: ``engine.busy`` where too many wait, ``engine.closed``.
        """
        return self._start(self._session.ask(prompt, tools, options, several=True))

    @documents(SubmitOptions)
    def submit_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Generation:
        """Ask for the answer to a conversation, and do not wait for it; as `chat` and `submit`."""
        asked = self._session.ask_chat(messages, tools, variables, options, several=True)
        return self._start(asked)

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> Stream: ...

    @overload
    def generate(
        self,
        prompt: list[str] | list[list[int]],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]: ...

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: bool,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream: ...

    @documents(RequestOptions)
    def generate(
        self,
        prompt: str | list[int] | list[str] | list[list[int]],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream | list[Completion]:
        """Continue a prompt.

        Args:
            prompt: text, which gets the tokenizer's special tokens (a beginning token, say), and in
                which those that are written out are tokens; or token ids as they are; or a list of
                either, which run together.
            tools: those whose calls are told from the text, as for `chat`; the prompt is as it is,
                and says by itself which there are. With none, and no `reasoning`, all that the
                model writes is text. Default: none.
            stream: return an iterator of text instead; for one prompt. Default: False.
            options: below.

        Raises:
            InputError: a prompt that is empty or too long, a parameter out of range.
            EngineError: ``engine.busy``, ``engine.context``, ``engine.closed``;
                ``engine.not_finite`` where the model's numbers have overflowed.
        """
        if stream:
            return Stream(self._start(self._session.ask(prompt, tools, options)))
        asked, alone = self._session.ask_each(prompt, tools, options)
        completions = run_together(asked, self._start)
        return completions[0] if alone else completions

    @documents(RequestOptions)
    def choices(
        self,
        prompt: str | list[int],
        *,
        n: int,
        tools: Sequence[ToolLike] | None = None,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]:
        """Continue a prompt in n ways; they share its KV pages. Raises as `generate` does."""
        asked = self._session.ask(prompt, tools, {**options, "n": n}, several=True)
        return self._start(asked).results()

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> Stream: ...

    @overload
    def chat(
        self,
        messages: Sequence[Sequence[Message]],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]: ...

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: bool,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream: ...

    @documents(RequestOptions)
    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream | list[Completion]:
        """Answer a conversation, by the model's own chat template. Thoughts and calls of tools are
        told from what is said.

        Args:
            messages: dicts such as ``{"role": "user", "content": "Hello"}``, whose content may also
                be a list of ``{"type": "text", "text": "Hello"}``; or a list of conversations,
                which run together.
            tools: what the model is told that it may call, by templates that show it: functions
                with type hints and a docstring, pydantic models, TypedDicts, dataclasses, or JSON
                schemas such as ``{"type": "function", "function": {...}}``. The completion has the
                calls (`tool_calls`), and makes messages of them and of what they gave (`message`,
                `ToolCall.result`). Default: none.
            variables: what else the template reads, such as ``{"enable_thinking": False}``.
                Default: nothing.
            stream: return an iterator of text instead; for one conversation. Default: False.
            options: below.

        Raises:
            InputError: messages the template refuses, a conversation that is too long, a
                parameter out of range, a model without a chat template.
            EngineError: as `generate` does.
        """
        if stream:
            return Stream(self._start(self._session.ask_chat(messages, tools, variables, options)))
        asked, alone = self._session.ask_each_chat(messages, tools, variables, options)
        completions = run_together(asked, self._start)
        return completions[0] if alone else completions

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the logits after each token: float32 [len(tokens), vocab].

        Raises:
            InputError: no tokens, too many, or what is no id of the vocabulary.
            EngineError: ``engine.memory`` where running requests hold the KV pages;
                ``engine.not_finite`` where the model's numbers have overflowed.
        """
        ids = token_ids(tokens)
        return self._session.loop.call(lambda: self._session.loop.engine.score(ids))

    def embed(
        self,
        texts: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]],
        *,
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return a vector for each text: float32 [texts, hidden].

        It is made of the model's hidden states after its final norm. Texts run beside requests, and
        each has the vector that it would have alone; they leave nothing in the KV pages.

        Args:
            texts: text, which gets the tokenizer's special tokens, or token ids as they are; or a
                list of either, of 2,048 at most.
            pooling: ``"last"``, the state of the last token, which has seen all others; or
                ``"mean"``, that of all tokens. Default: as the model was trained, where its
                checkpoint says so, and else the last one's.
            normalize: make each vector one of length 1, so that the product of two is the cosine of
                the angle between them. Default: as the checkpoint says, and else True.
            truncate: leave out what is behind the context, instead of refusing the text. Default:
                False.
            prompt: the name of a text that each text is to begin with, of those that the model's
                checkpoint has, such as ``"query"``. Default: none of them.

        Raises:
            InputError: a text that is empty or too long, too many texts, another `pooling`, or a
                prompt that the model has not.
            BundleError: ``bundle.entry`` for a bundle compiled before there were embeddings.
            EngineError: ``engine.busy``, ``engine.closed``; ``engine.not_finite`` where the model's
                numbers have overflowed.
        """
        begun = begin(self._session, texts, pooling, truncate=truncate, prompt=prompt)
        return as_asked(self._session, begun.result(), normalize)

    def rerank(
        self, query: str, documents: Sequence[str], *, instruction: str | None = None
    ) -> list[Ranked]:
        """Put documents in order: the index of each and its score, the nearest to a query first.

        A model that was trained to rank (Qwen3-Reranker) gives the probability that a document is
        what is asked for, in the text around both that it was trained with; what its context does
        not hold of a document is left out. All others give the cosine between the vectors that
        `embed` makes, which is a weaker order. Of documents that score the same the first is first.

        Args:
            query: what is looked for.
            documents: texts, of 2,047 at most.
            instruction: what a model that was trained to rank is told to look for. Default: the
                passages that answer a web search, as it was trained with most.

        Raises:
            InputError: ``input.texts`` for what is no text, or too many; ``input.special_tokens``
                for a text that would end what is said around it; ``input.instruction`` for an
                instruction that no model of this kind reads; what `embed` does.
            BundleError, EngineError: as `embed`.
        """
        texts, pooling = texts_to_embed(self._session, query, documents, instruction)
        return ranked(self._session, begin(self._session, texts, pooling, truncate=False).result())

    def pin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> int:
        """Compute a prefix and keep its KV pages on the device until `unpin`.

        Args:
            prompt: as for `generate`.
            cache_salt: whose requests are to find it, as theirs say it. Default: of those without.

        Returns:
            How many tokens of it are kept: whole pages of 16.

        Raises:
            InputError: as `generate` does.
        """
        ids, extras, engine = self._session.pinning(prompt, cache_salt)
        self._start(Submission([engine.pin(ids, extras)])).result()
        return self._session.loop.call(lambda: engine.pinned(ids, extras))

    def unpin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> None:
        """Let a prefix that was pinned with this salt go when its room is needed."""
        ids, extras, engine = self._session.pinning(prompt, cache_salt)
        self._session.loop.call(lambda: engine.unpin(ids, extras))

    def forget(self) -> None:
        """Drop the KV pages of all prefixes that are not pinned, wherever they are kept."""
        self._session.forget()

    def close(self) -> None:
        """Cancel what is running and release the memory. Closing twice is fine."""
        self._closing.detach()
        self._session.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, submission: Submission) -> Generation:
        return Generation(self._session.loop, submission, owner=self)
