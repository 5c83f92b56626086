"""A loaded model and the thread that runs it: what both kinds of engine are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from edgewise.cache import Progress, find_bundle, prefixes_folder
from edgewise.devices import device_for, load_program
from edgewise.options import split_options
from edgewise.prompts import prompt_ids
from edgewise.settings import LOOKUP, Settings
from edgewise.turns import Turns
from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.loop import EngineLoop
from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.sampling import defaults_from, sampling_params
from edgewise_runtime.engine.sequence import Request, Shorten
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.speculate.draft import DraftModel
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.kv.keys import producer_of
from edgewise_runtime.kv.spill import DiskStore, MemoryStore, PageStore, Tiered
from edgewise_runtime.kv.stored import stored_bytes
from edgewise_runtime.text import ChatTemplate, Tokenizer
from edgewise_runtime.text.files import read_object
from edgewise_runtime.text.segments import SegmentCache
from edgewise_runtime.text.template import Message, missing_template


class Host:
    """A model on a device, its tokenizer and template, and the loop that serves its requests.

    Attributes:
        context: the most tokens of prompt and answer together.
    """

    def __init__(
        self,
        bundle: str | Path,
        *,
        device: Device | str | None,
        program: str | None,
        threads: int | None,
        trust: bool,
        context: int | None,
        settings: Settings,
        progress: Progress | None,
    ) -> None:
        """See `Engine`."""
        self.bundle = Bundle.open(find_bundle(Path(bundle), progress=progress), progress=progress)
        self.context = _context(self.bundle.model.context, context)
        self.tokenizer = Tokenizer.from_folder(self.bundle.path)
        self._segments = SegmentCache(self.tokenizer)
        special = self.tokenizer.special_tokens
        self._template = ChatTemplate.from_folder(self.bundle.path, special)
        self._defaults = defaults_from(read_object(self.bundle.path / "generation_config.json"))
        chosen = device_for(self.bundle, device, program, threads=threads)
        self.device = chosen.name
        self.program, pages = load_program(
            self.bundle, chosen, program, context=self.context, trust=trust, progress=progress
        )
        opened: list[LoadedProgram | Drafter | PageStore] = [self.program]
        try:
            drafter = self._drafter(settings, chosen, trust=trust, progress=progress)
            opened += [drafter] if drafter is not None else []
            store = self._store(settings, chosen)
            opened += [store] if store is not None else []
            self.metrics = Metrics()
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

    def prompts(self, prompt: Any) -> tuple[list[tuple[int, ...]], bool]:
        """Token ids of each prompt, and whether there was just one; see `prompt_ids`."""
        return prompt_ids(prompt, self.tokenizer)

    def choices(
        self, prompt: tuple[int, ...], options: Mapping[str, Any], *, shorter: Shorten | None = None
    ) -> list[Choice]:
        """The checked sequences of a request for a prompt of token ids.

        Raises InputError and what else `GenerationEngine.sequences` does.
        """
        request, sampling = split_options(options)
        params = sampling_params(self._defaults, **sampling)
        if request["context_policy"] == "drop" and shorter is None:
            raise InputError(
                "context_policy 'drop' forgets turns of a conversation; this is none.",
                remedy="Use chat, or one of 'stop' and 'error'.",
                code="input.option",
            )
        return self.loop.engine.sequences(Request(prompt, params, shorten=shorter, **request))

    def chat_choices(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> list[Choice]:
        """The checked sequences of a request for the next turn of a conversation."""
        request, sampling = split_options(options)
        most = sampling_params(self._defaults, **sampling).max_tokens
        turns = Turns(messages, lambda kept: self._chat_ids(kept, tools, variables))
        if request["context_policy"] != "drop":
            return self.choices(turns.ids, options)
        prompt, dropped = turns.fitting(self.context - min(most, self.context // 4), self.context)
        choices = self.choices(prompt, options, shorter=turns.shorter)
        for choice in choices:
            choice.dropped_turns = dropped
        return choices

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text of a conversation."""
        if self._template is None:
            raise missing_template(self.bundle.name)
        return self._template.render(messages, tools=tools, **(variables or {}))

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

    def close(self) -> None:
        """Cancel everything and release the memory. Closing twice is fine."""
        self.loop.close()

    def _chat_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any] | None,
    ) -> list[int]:
        return self._segments.encode(self.render(messages, tools=tools, variables=variables))

    def _drafter(
        self, settings: Settings, device: Device, *, trust: bool, progress: Progress | None
    ) -> Drafter | None:
        if settings.draft is None:
            return None
        if settings.draft == LOOKUP:
            return PromptLookup()
        path = find_bundle(Path(settings.draft), progress=progress)
        bundle = Bundle.open(path, progress=progress)
        context = min(self.context, bundle.model.context)
        program, pages = load_program(
            bundle, device, None, context=context, trust=trust, progress=progress
        )
        try:
            return DraftModel(program, pages, self.bundle)
        except BaseException:
            program.close()
            raise

    def _store(self, settings: Settings, device: Device) -> PageStore | None:
        memory = MemoryStore(settings.prefix_memory)
        if not settings.prefix_disk:
            return memory if settings.prefix_memory else None
        folder = settings.prefix_folder
        disk = DiskStore(
            prefixes_folder() if folder is None else Path(folder),
            settings.prefix_disk,
            f"{producer_of(self.bundle, self.program.program)}/{device.identity}",
            stored_bytes(paged_state(self.bundle.manifest).page_tokens, self.program.page_bytes),
        )
        return Tiered(memory, disk)


def one(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The only prompt.

    Raises InputError ``input.stream`` where there are several.
    """
    if len(prompts) == 1:
        return prompts[0]
    raise InputError(
        f"This takes one prompt, not a list of {len(prompts)}.",
        remedy="Call it once for each; generate(...) without stream takes a list.",
        code="input.stream",
    )


def single(choices: Iterable[Choice]) -> list[Choice]:
    """The only choice.

    Raises InputError ``input.n`` where several were asked for.
    """
    listed = list(choices)
    if len(listed) == 1:
        return listed
    raise InputError(
        f"n is {len(listed)}, and this gives one completion.",
        remedy="Use choices(...), or submit(..., n=...) and its results().",
        code="input.n",
    )


def _context(most: int, asked: int | None) -> int:
    if asked is None:
        return most
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 < asked <= most:
        raise InputError(
            f"context is {asked!r}; this bundle allows 2 to {most}.",
            remedy="Compile the model with a larger --context for more.",
            code="input.context",
        )
    return asked
