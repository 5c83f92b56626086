"""Texts made vectors: what is accepted, and how they go through an engine beside its requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from edgewise.prompt import each_prompt_ids
from edgewise.session import Session
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.loop import PATIENCE, EngineLoop
from edgewise_runtime.engine.pooling import Pooling
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError, again
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text import Tokenizer

Vectors: TypeAlias = npt.NDArray[np.float32]

MAX_TEXTS = 2048
"""Of one call, as OpenAI's API has it."""
BEHIND = 1
"""The priority of texts: who asks for an answer goes first where both wait, though not for ever."""


def embedded_ids(
    texts: Any, tokenizer: Tokenizer, context: int, *, truncate: bool
) -> list[tuple[int, ...]]:
    """The token ids of each text, which the tokenizer gives its special tokens.

    Args:
        texts: text, token ids, or a list of either.
        truncate: leave out what is behind the context, instead of refusing the text.

    Raises:
        InputError: ``input.texts`` for too many; what else `each_prompt_ids` does.
    """
    if isinstance(texts, list | tuple) and len(texts) > MAX_TEXTS and not _is_ids(texts):
        raise InputError(
            f"There are {len(texts):,} texts; {MAX_TEXTS:,} are embedded at once.",
            remedy="Call it again for the others.",
            code="input.texts",
        )
    if isinstance(texts, list | tuple) and not texts:
        return []
    if not truncate:
        return each_prompt_ids(texts, tokenizer, context)[0]
    listed = texts if isinstance(texts, list | tuple) and not _is_ids(texts) else [texts]
    whole = [tokenizer.encode(one) if isinstance(one, str) else one for one in listed]
    return [ids[:context] for ids in each_prompt_ids(whole, tokenizer, context)[0]]


def sequences_of(
    engine: GenerationEngine, ids: Sequence[tuple[int, ...]], pooling: Any
) -> list[Choice]:
    """What the engine computes for each text.

    Raises:
        InputError: ``input.pooling``; ``input.empty``, ``input.context`` and ``input.token``, which
            say which text it is.
        BundleError: ``bundle.entry`` for a program that gives no hidden states.
    """
    if pooling not in get_args(Pooling):
        raise InputError(
            f"pooling is {shorten(pooling)}.",
            remedy=f"It is {' or '.join(get_args(Pooling))}.",
            code="input.pooling",
        )
    params = SamplingParams(max_tokens=0)
    made = []
    for nth, one in enumerate(ids):
        request = Request(one, params, priority=BEHIND, pooling=cast("Pooling", pooling))
        try:
            made.append(engine.sequence(request))
        except InputError as error:
            message = f"Text {nth}: {error.message}"
            raise InputError(message, remedy=error.remedy, code=error.code) from error
    return made


def normalized(vectors: Vectors) -> Vectors:
    """Vectors of length 1; one without any length stays as it is.

    Lengths are of float64, which no float32 overflows.
    """
    lengths = np.sqrt(np.sum(np.square(vectors, dtype=np.float64), axis=-1, keepdims=True))
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class Embedding:
    """Texts on their way through an engine, as many at a time as leave places for others.

    Attributes:
        tokens: of each text.
    """

    def __init__(self, loop: EngineLoop, texts: Sequence[Choice], hidden: int) -> None:
        """Begin; raises as `EngineLoop.submit` does."""
        self.tokens = tuple(text.prompt_len for text in texts)
        self._future: Future[Vectors] = Future()
        self._future.set_running_or_notify_cancel()  # a task that is cancelled leaves it be
        self._loop = loop
        self._texts = tuple(texts)
        self._vectors = np.empty((len(texts), hidden), np.float32)
        self._missing = len(texts)
        self._waiting = deque(texts)
        for nth, text in enumerate(texts):
            text.on_end = partial(self._ended, nth, text)
        if not texts:
            self._future.set_result(self._vectors)
            return
        # The engine's thread takes the others, one for each that has ended.
        together = min(max(loop.engine.places // 2, 1), len(texts))
        loop.submit([self._waiting.popleft() for _ in range(together)])

    def cancel(self) -> None:
        """Compute no more of it; any thread may call this."""
        self._waiting.clear()
        self._loop.cancel(self._texts)

    def result(self) -> Vectors:
        """Wait for the vectors, float32 [texts, hidden]; raises what went wrong with one of the
        texts. Ctrl-C while waiting cancels it.
        """
        try:
            while True:
                try:
                    return self._future.result(PATIENCE)
                except TimeoutError:
                    continue  # a signal may have come whose handler wakes no one
        except BaseException:
            self.cancel()
            raise

    async def wait(self) -> Vectors:
        """As `result`, for asyncio; a task that is cancelled cancels it."""
        try:
            return await asyncio.wrap_future(self._future)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _ended(self, nth: int, text: Choice) -> None:
        """One of them has, which is told on the engine's thread."""
        if self._future.done():
            return
        if text.pooled is None or text.finish_reason != "length":
            self._fail(text.failure or _cancelled())
            return
        self._vectors[nth] = text.pooled.vector
        self._missing -= 1
        if not self._missing:
            self._future.set_result(self._vectors)
            return
        try:
            with suppress(IndexError):  # none waits, or it has just been cancelled
                self._loop.submit([self._waiting.popleft()])
        except EdgewiseError as error:
            self._fail(error)

    def _fail(self, error: EdgewiseError) -> None:
        self.cancel()
        self._future.set_exception(again(error))


def as_asked(
    session: Session, vectors: npt.NDArray[np.float32], normalize: bool | None
) -> npt.NDArray[np.float32]:
    """Vectors of length 1 where that is asked for, or is the model's own where nothing is."""
    said = session.texts.vectors.normalize if normalize is None else normalize
    return normalized(vectors) if said else vectors


def prompted(texts: Any, prompts: Mapping[str, str], name: str | None) -> Any:
    """Texts that begin with a prompt of the model; token ids stay as they are.

    Raises:
        InputError: ``input.prompt_name`` for a name that the model has no prompt of.
    """
    if name is None:
        return texts
    if name not in prompts:
        raise InputError(
            f"The model has no prompt {shorten(name)}.",
            remedy=f"It has {', '.join(sorted(prompts)) or 'none'}.",
            code="input.prompt_name",
        )
    if isinstance(texts, str):
        return prompts[name] + texts
    if not isinstance(texts, list | tuple):
        return texts
    return [prompts[name] + one if isinstance(one, str) else one for one in texts]


def begin(
    session: Session, texts: Any, pooling: Any, *, truncate: bool, prompt: str | None = None
) -> Embedding:
    """Begin to embed texts, pooled as the model says where `pooling` is None.

    Raises as `prompted`, `embedded_ids`, `sequences_of` and `Embedding`.
    """
    texts = prompted(texts, session.texts.vectors.prompts, prompt)
    ids = embedded_ids(texts, session.tokenizer, session.context, truncate=truncate)
    chosen = session.texts.vectors.pooling if pooling is None else pooling
    made = sequences_of(session.loop.engine, ids, chosen)
    return Embedding(session.loop, made, session.bundle.model.hidden)


async def begin_beside(
    session: Session, texts: Any, pooling: Any, *, truncate: bool, prompt: str | None = None
) -> Embedding:
    """As `begin`, for asyncio; a task that is cancelled meanwhile leaves nothing to compute."""
    beginning = asyncio.ensure_future(
        asyncio.to_thread(begin, session, texts, pooling, truncate=truncate, prompt=prompt)
    )
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(_given_up)
        raise


def _given_up(beginning: asyncio.Future[Embedding]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().cancel()


def _is_ids(items: Sequence[Any]) -> bool:
    """Whether a list is one text, by its first token."""
    return bool(items) and isinstance(items[0], int | np.integer)


def _cancelled() -> EngineError:
    return EngineError(
        "The engine was closed before all texts had their vectors.",
        remedy="Load the model again.",
        code="engine.closed",
    )
