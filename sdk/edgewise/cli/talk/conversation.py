"""What was said between a person and a model, and how the next answer is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgewise.answers import Completion
from edgewise.engine import Engine
from edgewise.generation import Generation
from edgewise.model_defaults import MAX_LENGTH
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.errors import InputError
from edgewise_runtime.text.thinking import OPEN, parted, thinking_of

Show = Callable[[str], None]
"""Is given each piece of an answer as it comes."""


@dataclass(frozen=True)
class Turn:
    """A question and its answer.

    Attributes:
        answer: with its thought, where there is one, between ``<think>`` and ``</think>``.
        tokens: ids of an answer that was cut, to go on from; none of one that ended by itself.
    """

    question: str
    answer: str
    tokens: tuple[int, ...] = ()


class Conversation:
    """The turns so far. When they no longer fit, the model is given only the latest.

    Attributes:
        options: of the answers to come, see `RequestOptions`; None for a default.
        defaults: what those are: as in `Engine.chat`, but an answer may be as long as the context.
        system: the system prompt.
        think: whether the model is to think before it answers; None for its own way.
        thinking: what its chat template does about thoughts.
        turns: all of them, also those that no longer fit.
    """

    def __init__(
        self,
        engine: Engine,
        options: Mapping[str, Any],
        *,
        system: str | None = None,
        think: bool | None = None,
    ) -> None:
        """Raises InputError ``input.think`` where `think` is given and the model has no choice."""
        self._engine = engine
        self.options = dict(options)
        self.defaults: dict[str, Any] = {
            **asdict(SamplingParams()),
            "max_tokens": engine.context,
            **engine.defaults,
        }
        self.system = system
        self.thinking = thinking_of(
            lambda messages, variables: engine.render(messages, variables=variables)
        )
        self.think: bool | None = None
        self.turns: list[Turn] = []
        self._forgotten = 0
        self._running: Generation | None = None
        self._stopped = False
        if think is not None:
            self.set_think(think)

    @property
    def opening(self) -> str:
        """What the next answer has begun with: a thought, where its prompt opens one."""
        return f"{OPEN}\n" if self.thinking.opened(self.think) else ""

    def set_think(self, think: bool | None) -> None:
        """Let the model think before it answers, or not; raises as the constructor does."""
        if think is not None and not self.thinking.switchable:
            raise InputError(
                f"{self._engine.name} cannot be told whether to think: its chat template does not "
                "read enable_thinking.",
                remedy="Leave that out: it answers in its own way.",
                code="input.think",
            )
        self.think = think

    def reset(self) -> None:
        """Forget what was said; the system prompt stays."""
        self.replace(self.system, ())

    def replace(self, system: str | None, turns: Sequence[Turn]) -> None:
        """Go on from another conversation."""
        self.system = system or None
        self.turns = list(turns)
        self._forgotten = 0

    def ask(self, question: str, show: Show) -> Completion:
        """Ask the next question; return what came of it, once it has ended or was stopped.

        A question of which no answer came at all is as if it had not been asked.

        Raises:
            EdgewiseError: as `Engine.chat` does; the conversation is then as it was.
        """
        return self._answer(self.turns, question, show)

    def regenerate(self, show: Show) -> Completion:
        """Answer the last question anew, with another seed; raises as `ask` does.

        Raises:
            InputError: ``input.conversation`` where nothing was asked.
        """
        last = self._last("There is no answer yet to replace.")
        return self._answer(self.turns[:-1], last.question, show, seed=None)

    def proceed(self, show: Show) -> Completion:
        """Go on with the last answer, which was cut, from its very tokens; raises as `ask` does.

        Raises:
            InputError: ``input.conversation`` where there is none, or it ended by itself.
        """
        last = self._last("There is no answer yet to go on with.")
        if not last.tokens:
            raise InputError(
                "The last answer was not cut: there is nothing to go on with.",
                remedy="Ask for more in words.",
                code="input.conversation",
            )
        return self._answer(self.turns[:-1], last.question, show, begun=last.tokens)

    def stop(self) -> None:
        """End the answer that is being written, if any, where it is; a signal handler may."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()

    def _last(self, missing: str) -> Turn:
        if not self.turns:
            raise InputError(missing, remedy="Ask something first.", code="input.conversation")
        return self.turns[-1]

    def _answer(
        self, before: Sequence[Turn], question: str, show: Show, **options: Any
    ) -> Completion:
        self._stopped = False
        given = {name: value for name, value in self.options.items() if value is not None}
        opening = self.opening
        generation = self._engine.submit_chat(
            self._messages(before, question),
            variables=None if self.think is None else {"enable_thinking": self.think},
            context_policy="drop",
            **{**self._limit(), **given, **options},
        )
        with generation:
            self._running = generation
            try:
                if self._stopped:
                    generation.cancel()
                for piece in generation:
                    if piece.written:
                        show(piece.written)
            finally:
                self._running = None
        completion = generation.result()
        if completion.usage.completion_tokens:
            cut = completion.finish_reason != "stop"
            written = opening + completion.written
            turn = Turn(question, written, completion.token_ids if cut else ())
            self.turns = [*before, turn]
            self._forgotten += completion.dropped_turns
        return completion

    def _limit(self) -> dict[str, int]:
        """How long an answer may be; nothing where the model says that of prompt and answer."""
        if MAX_LENGTH in self.defaults:
            return {}
        return {"max_tokens": self.defaults["max_tokens"]}

    def _messages(self, before: Sequence[Turn], question: str) -> list[dict[str, str]]:
        found = [{"role": "system", "content": self.system}] if self.system else []
        for turn in before[self._forgotten :]:
            # Templates that forget thoughts would not recognize one that was cut off.
            said = parted(turn.answer)[1] if self.thinking.forgets else turn.answer
            found.append({"role": "user", "content": turn.question})
            found.append({"role": "assistant", "content": said})
        return [*found, {"role": "user", "content": question}]
