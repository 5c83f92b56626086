"""What a model is asked and what it says, as values that cross processes as JSON.

APIs read their requests into an `Ask` and write what `Hosted.ask` says in their own words. They
know nothing of engines, and nobody else knows of their words.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from edgewise.deltas import Delta
from edgewise_runtime.engine.completion import Usage

Json: TypeAlias = Any
"""Null, bool, number, text, list or object, as `json` reads it."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request, every part of it JSON; the engine checks what it means.

    Attributes:
        messages: of a conversation whose next turn is asked for; None where there is a prompt.
        prompt: text, or token ids.
        tools: as OpenAI's API has them.
        variables: of the chat template.
        options: of `edgewise.options.SubmitOptions` by name, `n` among them.
    """

    messages: Sequence[Mapping[str, Json]] | None = None
    prompt: str | Sequence[int] | None = None
    tools: Sequence[Mapping[str, Json]] | None = None
    variables: Mapping[str, Json] | None = None
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenSaid:
    """A token that came, and how likely it was, where that was asked for.

    Attributes:
        text: of its bytes, those that are no UTF-8 replaced.
        data: its bytes.
        top: texts and bytes of the likeliest ones with their log-probabilities, best first.
    """

    id: int
    text: str
    data: bytes
    logprob: float
    top: tuple[tuple[str, bytes, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What a step added to a choice.

    Attributes:
        deltas: text, thoughts and calls, see `edgewise.deltas`.
        token_ids: the tokens that came, whose text may still be to come.
        tokens: the same with their log-probabilities, where those were asked for.
        index: of the choice.
    """

    deltas: tuple[Delta, ...]
    token_ids: tuple[int, ...] = ()
    tokens: tuple[TokenSaid, ...] = ()
    index: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A choice that is whole.

    Attributes:
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``cancelled`` or ``timeout``.
        stop: the stop string that ended it; None where none did.
        timings: seconds, see `Timings.to_json`.
        context_full: the context ended it, before ``max_tokens``.
        dropped_turns: oldest turns of the conversation that were left out.
        thought_tokens: of its tokens those that were thought, see `thoughts`.
    """

    index: int
    text: str
    reasoning: str
    calls: tuple[Call, ...]
    token_ids: tuple[int, ...]
    finish_reason: str
    usage: Usage
    timings: Mapping[str, float]
    seed: int
    stop: str | None = None
    tokens: tuple[TokenSaid, ...] = ()
    context_full: bool = False
    dropped_turns: int = 0
    thought_tokens: int = 0


Event = Said | Ended


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's vector.

    Attributes:
        data: float32, the lowest byte first.
        tokens: of the text.
    """

    data: bytes
    tokens: int


@dataclass(frozen=True)
class Facts:
    """What there is to say of a model.

    Attributes:
        name: that it is asked for by.
        family: of its architecture, such as ``qwen3``.
        parameters: how many weights it has.
        quant: how they are stored, such as ``q4``.
        bytes: of its weights.
        context: the most tokens of prompt and answer together.
        vocab: tokens.
        hidden: numbers of a text's vector, see `Hosted.embed`.
        program, device: what runs, on what, for people; empty where it is not loaded.
        template: its chat template; empty where it has none.
        capabilities: of ``completion``, ``chat``, ``tools``, ``thinking``, ``embedding``.
        defaults: options that its generation_config.json sets.
        end_tokens: texts of those that end an answer.
        created: when its bundle was written, seconds since the epoch.
        ranking: `VectorRules.direction` in base64; empty for a model that ranks no texts.
    """

    name: str
    family: str
    parameters: int
    quant: str
    bytes: int
    context: int
    vocab: int
    hidden: int
    program: str
    device: str
    template: str
    capabilities: tuple[str, ...]
    defaults: Mapping[str, Json]
    end_tokens: tuple[str, ...]
    created: int = 0
    ranking: str = ""


class Hosted(ABC):
    """A model that answers, wherever it runs. For one event loop.

    Every method raises the `EdgewiseError` of what is wrong; EngineError ``engine.gone`` where
    the process that it ran in has ended.

    Attributes:
        facts: what there is to say of it.
    """

    facts: Facts

    @property
    def process(self) -> int:
        """The id of the process that it runs in, this one; 0 where that has ended."""
        return os.getpid()

    @abstractmethod
    def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """What comes of a request: `Said` as it comes, and an `Ended` for each choice.

        Closing the generator cancels the request. Whoever does not read it holds up nobody.
        """

    @abstractmethod
    async def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> list[Embedded]:
        """The vector of each text, in order; see `edgewise.Engine.embed`.

        Texts run beside requests. Cancelling the task cancels them.
        """

    @abstractmethod
    async def count(self, ask: Ask) -> int:
        """How many tokens the prompt of a request has, its chat template applied."""

    @abstractmethod
    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text; with those that the model begins a text with, where `special`."""

    @abstractmethod
    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, special ones written out."""

    @abstractmethod
    async def render(self, ask: Ask) -> str:
        """The text that the chat template makes of a conversation."""

    @abstractmethod
    async def metrics(self) -> Mapping[str, Json]:
        """Counters, gauges and histograms at this moment, see `engine.metrics.FAMILIES`."""

    @abstractmethod
    async def close(self) -> None:
        """End what runs and give up the memory. Closing twice is fine."""


class Models(ABC):
    """The models that there are, by name."""

    @abstractmethod
    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        """A model, loaded if it was not.

        Args:
            keep_alive_s: seconds for which it stays after its last request: below 0 for ever, 0 for
                not at all; None for as long as usual.

        Raises:
            InputError: ``input.model`` where there is none of that name.
            EngineError: ``engine.memory`` where it has no room beside those that are busy.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Those that can be asked for, loaded or not."""

    @abstractmethod
    def loaded(self) -> list[Loaded]:
        """Those that are in memory now."""

    async def facts(self, name: str) -> Facts | None:
        """What there is to say of a model, which is not loaded for that.

        None where that cannot be known before it is loaded, or there is no such model.
        """
        loaded = (one.hosted.facts for one in self.loaded())
        return next((facts for facts in loaded if facts.name == name), None)

    @abstractmethod
    async def close(self) -> None:
        """End all of them. Closing twice is fine."""


@dataclass(frozen=True)
class Loaded:
    """A model in memory.

    Attributes:
        hosted: the model.
        bytes: of memory that it is counted with.
        expires: when it leaves unless somebody asks, seconds since the epoch; None for never.
        running: requests under way.
        process: the id of the process it runs in.
    """

    hosted: Hosted
    bytes: int
    expires: float | None
    running: int
    process: int
