"""A model that tabs of browsers run: everything but the GPU's work is done here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from edgewise.hosting.base import Ask, Embedded, Ended, Event, Facts, Hosted, Json, Loaded, Models
from edgewise.hosting.facts import facts_of_texts
from edgewise.hosting.prompting import Prompting, options_of, prompt_of
from edgewise.hosting.tab import Later
from edgewise.hosting.tabs import BEAT_S, Tabs
from edgewise.hosting.thoughts import thought_tokens
from edgewise.messages import conversation
from edgewise.request import read_options
from edgewise.texts import Texts
from edgewise.wanted import wanted_of
from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.files import read_bytes
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.seal import MANIFEST, MAX_BYTES, digest_of

TARGET = "webgpu"
TOKENIZER = "tokenizer.json"

UNSUPPORTED = ("cache_salt", "logprobs", "n", "top_logprobs")
"""Options that engines of tabs do not have."""
OURS = ("priority", "timeout_s")
"""Options that are not for the tab: all wait in one queue, and the time runs here."""


class TabModel(Prompting):
    """A bundle's model on the GPUs of visitors. For one event loop.

    Attributes:
        tabs: those that lend their GPU.
    """

    def __init__(
        self, name: str, bundle: Bundle, *, beat_s: float = BEAT_S, later: Later | None = None
    ) -> None:
        """The model of a bundle, which this closes; no tab lends its GPU yet.

        Args:
            beat_s, later: of `Tabs`.

        Raises:
            InputError: ``input.program`` for a bundle that no browser can run.
        """
        program = next((p for p in bundle.manifest.programs if p.target == TARGET), None)
        if program is None:
            raise InputError(
                f"Bundle {bundle.name!r} has no {TARGET} program, so no browser can run it.",
                remedy=f"Compile the model with --target {TARGET}.",
                code="input.program",
            )
        self._bundle, self.texts = bundle, Texts(bundle)
        context = bundle.model.context
        self.facts = facts_of_texts(
            name, bundle, self.texts, program, context=context, device="tabs of browsers"
        )
        files = bundle.manifest.files
        self.tabs = Tabs(
            digest_of(read_bytes(bundle.folder / MANIFEST, MAX_BYTES)),
            files[TOKENIZER].sha256,
            context=context,
            vocab=bundle.model.vocab,
            beat_s=beat_s,
            later=later,
        )

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """See `Hosted.ask`.

        Raises:
            EngineError: ``tab.none`` where no tab lends its GPU, ``tab.gone`` and ``tab.silent``
                where the one that answered is lost.
            UnsupportedError: ``unsupported.tab`` for options that engines of tabs do not have.
        """
        asked, timeout_s = self._checked(ask)
        run = self.tabs.begin(asked)
        loop = asyncio.get_running_loop()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self.tabs.halt, run)
        try:
            event: Event | None = None
            while not isinstance(event, Ended):
                event = await run.next()
                if isinstance(event, Ended) and event.finish_reason == "cancelled":
                    event = replace(event, finish_reason="timeout")  # nothing else halts it here
                if isinstance(event, Ended) and event.reasoning:
                    event = replace(event, thought_tokens=await self._thought_tokens(event))
                yield event
        finally:
            if timer is not None:
                timer.cancel()
            self.tabs.leave(run)

    async def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> list[Embedded]:
        """Refused: hidden states do not leave a tab. Raises UnsupportedError
        ``unsupported.tab``."""
        raise UnsupportedError(
            "Models that tabs run give no embeddings.",
            remedy="Ask a model that the server runs itself.",
            code="unsupported.tab",
        )

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`: what runs and waits here, where nothing else is known."""
        running, waiting = self.tabs.running, self.tabs.waiting
        gauges = {"num_requests_running": running, "num_requests_waiting": waiting}
        return {**Metrics().snapshot(), **gauges}

    async def close(self) -> None:
        """See `Hosted.close`."""
        self.tabs.close()
        self._bundle.close()

    async def _thought_tokens(self, ended: Ended) -> int:
        decode = self.texts.tokenizer.decode
        return await asyncio.to_thread(thought_tokens, ended.reasoning, ended.token_ids, decode)

    def _checked(self, ask: Ask) -> tuple[Ask, float | None]:
        """What a tab is asked, and for how many seconds. Raises as an engine would."""
        options = options_of(ask)
        asked = read_options(options, self.texts.defaults, several=True)
        wanted_of(options, ask.tools)
        if ask.messages is None:
            prompt_of(ask)
        else:
            conversation(ask.messages)
        for name in UNSUPPORTED:
            if options.get(name) not in (None, False, 0) and (name, options[name]) != ("n", 1):
                raise UnsupportedError(
                    f"{name} is {shorten(options[name])}, which tabs do not do.",
                    remedy=f"Leave out {name}, or ask a model that runs on the host.",
                    code="unsupported.tab",
                )
        left = (*UNSUPPORTED, *OURS)
        kept = {name: value for name, value in ask.options.items() if name not in left}
        given = {name: value for name, value in kept.items() if value is not None}
        sent = replace(ask, options=given)
        _check_json(sent)
        return sent, asked.timeout_s


def _check_json(ask: Ask) -> None:
    try:
        json.dumps(asdict(ask), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"This is no JSON: {error}.", code="input.json") from error


@dataclass(frozen=True)
class TabModels(Models):
    """Models that tabs run, by name."""

    models: Mapping[str, TabModel]

    @property
    def tabs(self) -> dict[str, Tabs]:
        """The tabs of each."""
        return {name: model.tabs for name, model in self.models.items()}

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        """See `Models.get`; how long a model stays is for the tabs to say."""
        found = self.models.get(name)
        if found is None:
            raise InputError(
                f"There is no model {shorten(name)}.",
                remedy=f"There are {', '.join(self.models)}.",
                code="input.model",
            )
        return found

    def names(self) -> list[str]:
        """See `Models.names`."""
        return list(self.models)

    def loaded(self) -> list[Loaded]:
        """See `Models.loaded`: those that tabs have loaded."""
        return [
            Loaded(one, 0, None, one.tabs.running, one.process)
            for one in self.models.values()
            if len(one.tabs)
        ]

    async def facts(self, name: str) -> Facts | None:
        """See `Models.facts`."""
        found = self.models.get(name)
        return None if found is None else found.facts

    async def close(self) -> None:
        """See `Models.close`."""
        for one in self.models.values():
            await one.close()
