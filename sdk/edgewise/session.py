"""A model that is loaded and served: what both kinds of engine are made of, and tell of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

from edgewise.cache import Progress, find_bundle
from edgewise.constraints import Constraints
from edgewise.devices import device_for, load_program, target_for
from edgewise.messages import conversation, each_conversation
from edgewise.model_defaults import said_of
from edgewise.prompt import each_prompt_ids, prompt_ids
from edgewise.reading import Reading, opens_thought, reading_of
from edgewise.request import Asked, read_options
from edgewise.settings import Settings, kept_bytes, open_drafter, open_packs, open_store
from edgewise.texts import Texts
from edgewise.thinking import thinking_of
from edgewise.tools import ToolLike
from edgewise.wanted import Wanted, check_prompted, wanted_of
from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.table import named_device
from edgewise_runtime.engine.answer import AnswerText
from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.constraint import Constraint
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.loop import EngineLoop
from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.errors import InputError, memory_errors
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import Bundle, ModelInfo
from edgewise_runtime.format.state import footprint
from edgewise_runtime.kv.spill import PageStore
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.template import Message
from edgewise_runtime.trust import Trust

_LAST = 16
"""Tokens at the end of a prompt, which hold the mark of a thought if it opens one."""


@dataclass(frozen=True)
class Submission:
    """A checked request: its choices, to be submitted, and how their answers are read."""

    choices: Sequence[Choice]
    reading: Reading = field(default_factory=Reading)


class Session:
    """A model on a device, its tokenizer and template, and the loop that serves its requests.

    Attributes:
        context: the most tokens of prompt and answer together.
        defaults: what the model's generation_config.json sets, see `model_defaults`.
        texts: what its texts are to requests.
    """

    @memory_errors("loading the model")
    def __init__(
        self,
        bundle: str | Path,
        *,
        device: Device | str | None,
        program: str | None,
        threads: int | None,
        trust: Trust,
        context: int | None,
        settings: Settings,
        progress: Progress | None,
    ) -> None:
        """See `Engine`."""
        # Before anything is compiled for it: there may be no such device.
        named = named_device(device, threads=threads) if isinstance(device, str) else device
        path = find_bundle(
            Path(bundle),
            target=target_for(named, program),
            context=context,
            progress=progress,
        )
        self.bundle = Bundle.open(path, progress=progress)
        _check_context(self.bundle.model.context, context)
        self.texts = Texts(self.bundle)
        self.tokenizer, self.prompts = self.texts.tokenizer, self.texts.prompts
        self.defaults = self.texts.defaults
        model = self.bundle.model
        self._constraints = Constraints(self.tokenizer, model.vocab, model.eos)
        if ignored := self.texts.not_obeyed():
            warnings.warn(said_of(ignored, self.bundle.name), stacklevel=3)
        chosen = device_for(self.bundle, named, program, threads=threads)
        self.device = chosen.name
        kept, beside = kept_bytes(settings, chosen)
        self.program, pages = load_program(
            self.bundle,
            chosen,
            program,
            context=context,
            beside=beside,
            trust=trust,
            progress=progress,
        )
        opened: list[LoadedProgram | Drafter | PageStore] = [self.program]
        try:
            most = self.bundle.model.context if context is None else context
            self.context = footprint(self.bundle.manifest).tokens(pages, most)
            if self.context < most:
                warnings.warn(_less_context(self.bundle.name, self.context, most), stacklevel=3)
            drafter = open_drafter(
                settings,
                self.bundle,
                chosen,
                context=self.context,
                trust=trust,
                progress=progress,
            )
            opened += [drafter] if drafter is not None else []
            self.metrics = Metrics()
            shipped = open_packs(settings, self.program)
            self._store = store = open_store(settings, self.program, chosen, self.metrics, shipped)
            opened += [store] if store is not None else []
            core = GenerationEngine(
                self.program,
                self.tokenizer,
                pages=pages,
                context=self.context,
                options=EngineOptions(
                    step_tokens=settings.step_tokens,
                    max_waiting=settings.max_waiting,
                    share_decoded=settings.share_decoded,
                    store=store,
                    shipped=shipped,
                    kept_bytes=kept,
                    drafter=drafter,
                    metrics=self.metrics,
                ),
            )
        except BaseException:
            for closable in reversed(opened):
                closable.close()
            raise
        self._tracing = Lock()
        self.loop = EngineLoop(core, finish=self.program.close)

    def pinning(
        self, prompt: Any, cache_salt: str | None
    ) -> tuple[tuple[int, ...], tuple[str, ...], GenerationEngine]:
        """The ids of a prompt to pin, what keeps its pages apart from others, and who pins it.

        Raises what `ask` does.
        """
        asked = read_options({"cache_salt": cache_salt}, {})
        return prompt_ids(prompt, self.tokenizer, self.context), asked.extras, self.loop.engine

    def ask(
        self,
        prompt: Any,
        tools: Iterable[ToolLike] | None,
        options: Mapping[str, Any],
        *,
        several: bool = False,
    ) -> Submission:
        """The checked request for one prompt, to be submitted.

        Raises InputError and what else `GenerationEngine.sequences` does.
        """
        asked, wanted = (
            read_options(options, self.defaults, several=several),
            wanted_of(options, tools),
        )
        ids = prompt_ids(prompt, self.tokenizer, self.context)
        return self._of_prompt(prompt, ids, asked, wanted)

    def ask_each(
        self, prompt: Any, tools: Iterable[ToolLike] | None, options: Mapping[str, Any]
    ) -> tuple[list[Submission], bool]:
        """As `ask` of each prompt, and whether there was just one."""
        prompts, alone = each_prompt_ids(prompt, self.tokenizer, self.context)
        asked, wanted = read_options(options, self.defaults), wanted_of(options, tools)
        texts = [prompt] if alone else prompt
        return [
            self._of_prompt(text, ids, asked, wanted)
            for text, ids in zip(texts, prompts, strict=True)
        ], alone

    def ask_chat(
        self,
        messages: Any,
        tools: Iterable[ToolLike] | None,
        variables: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        *,
        several: bool = False,
    ) -> Submission:
        """As `ask` of the next turn of a conversation."""
        asked, wanted = (
            read_options(options, self.defaults, several=several),
            wanted_of(options, tools),
        )
        return self._next_turn(conversation(messages), wanted, variables, asked)

    def ask_each_chat(
        self,
        messages: Any,
        tools: Iterable[ToolLike] | None,
        variables: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> tuple[list[Submission], bool]:
        """As `ask_chat` of each conversation, and whether there was just one."""
        conversations, alone = each_conversation(messages)
        asked, wanted = read_options(options, self.defaults), wanted_of(options, tools)
        if asked.begun and not alone:
            raise InputError(
                f"begun is of one answer; there are {len(conversations)} conversations.",
                remedy="Call chat for the one that it belongs to.",
                code="input.option",
            )
        return [self._next_turn(one, wanted, variables, asked) for one in conversations], alone

    def _of_prompt(
        self, prompt: Any, ids: tuple[int, ...], asked: Asked, wanted: Wanted
    ) -> Submission:
        """The request for a prompt, whose answer is read only where something is asked of it."""
        if not wanted.asks:
            return Submission(self.loop.engine.sequences(asked.of_prompt(ids)))
        check_prompted(wanted)
        form = wanted.form or self.prompts.form
        end = prompt if isinstance(prompt, str) else self.tokenizer.decode(ids[-_LAST:])
        reading = reading_of(wanted, form, opened=opens_thought(form, end))
        held = self._held(wanted, reading, may_think=False)
        request = asked.of_prompt(ids, shown=reading.shown, constraint=held)
        return Submission(self.loop.engine.sequences(request), reading)

    def _next_turn(
        self,
        messages: Sequence[Message],
        wanted: Wanted,
        variables: Mapping[str, Any] | None,
        asked: Asked,
    ) -> Submission:
        turns, opened = self.prompts.turns(messages, wanted, variables, asked, self.context)
        form = wanted.form or self.prompts.form
        reading = reading_of(wanted, form, opened=opened)
        if asked.begun:
            stream = self.tokenizer.stream(shown=reading.shown)
            before = str(AnswerText(stream, asked.params.stop, asked.begun))
            reading = replace(reading, before=before)
        may_think = self.prompts.thinks(form) and wanted.may_think
        held = self._held(wanted, reading, may_think=may_think)
        request = asked.of_conversation(turns, self.context, shown=reading.shown, constraint=held)
        return Submission(self.loop.engine.sequences(request), reading)

    def _held(self, wanted: Wanted, reading: Reading, *, may_think: bool) -> Constraint | None:
        """What an answer is held to; None where it is free."""
        form = reading.form
        if form is None or (not wanted.forces and wanted.budget is None):
            return None
        thinking = thinking_of(form, shown=reading.shown, may=may_think, opened=reading.opened)
        return self._constraints.of(wanted, form, thinking)

    @contextmanager
    def traced(self, file: Path) -> Iterator[Trace]:
        """Record what the engine does in a block, and write it to a file; see `Loaded.trace`."""
        with storage_errors("write", file):
            file.parent.stat()
        if not self._tracing.acquire(blocking=False):
            raise InputError(
                "The engine's steps are being recorded already.",
                remedy="Record one trace at a time.",
                code="input.trace",
            )
        recorded = self.metrics.trace = Trace()
        try:
            yield recorded
        finally:
            self.metrics.trace = None
            self._tracing.release()
            recorded.write(file)

    def forget(self) -> None:
        """Drop all prefixes that are kept and not pinned; those on disk are gone when it returns.

        Raises what `EngineLoop.call` does.
        """
        self.loop.call(self.loop.engine.forget)
        if self._store is not None:
            self._store.wait()

    def close(self) -> None:
        """Cancel everything and release the memory. Closing twice is fine."""
        self.loop.close()
        self.bundle.close()


class Loaded:
    """A model loaded on a device."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # An engine that is dropped, or open when Python ends, ends its thread.
        self._closing = finalize(self, session.close)

    @property
    def session(self) -> Session:
        """What it is made of, for who serves it to others."""
        return self._session

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._session.bundle.name

    @property
    def model(self) -> ModelInfo:
        """The model's shape and bounds."""
        return self._session.bundle.model

    @property
    def tokenizer(self) -> Tokenizer:
        """`encode` and `decode` of the model's tokenizer."""
        return self._session.tokenizer

    @property
    def context(self) -> int:
        """The most tokens of prompt and answer together."""
        return self._session.context

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The options that the model's generation_config.json sets, and perhaps ``max_length``: of
        prompt and answer together, for requests that do not say ``max_tokens``."""
        return dict(self._session.defaults)

    @property
    def program(self) -> str:
        """Id of the program that runs, such as ``cpu-w4a8-avx512vnni``."""
        return self._session.program.program.id

    @property
    def device(self) -> str:
        """What it runs on, for people."""
        return self._session.device

    def memory(self) -> dict[str, int]:
        """Bytes in use by role: ``param``, ``state``, ``input``, ``output``, ``scratch``."""
        return self._session.program.memory()

    def metrics(self) -> dict[str, Any]:
        """Counters, gauges and histograms at this moment, see `engine.metrics.FAMILIES`."""
        return self._session.metrics.snapshot()

    @contextmanager
    def trace(self, path: str | Path) -> Iterator[Trace]:
        """Record the engine's steps in a block, and write them for https://ui.perfetto.dev.

        Raises:
            InputError: ``input.trace`` where another block records them already.
            StorageError: where the file cannot be written.
        """
        with self._session.traced(Path(path)) as recorded:
            yield recorded

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Iterable[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text that `chat` makes of a conversation.

        It does not show which special tokens in it the template has written, and which a message.
        """
        prompts = self._session.prompts
        return prompts.render(conversation(messages), tools=tools, variables=variables)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.program} context={self.context}>"


def _less_context(name: str, held: int, most: int) -> str:
    return (
        f"Memory has room for {held:,} tokens of context; {name} allows {most:,}. Free some for "
        "more, or ask for no more than that (context, --context)."
    )


def _check_context(most: int, asked: int | None) -> None:
    if asked is None:
        return
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 < asked <= most:
        raise InputError(
            f"context is {asked!r}; this bundle allows 2 to {most}.",
            remedy="Compile the model with a larger --context for more.",
            code="input.context",
        )
