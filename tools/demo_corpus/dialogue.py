"""What a dialogue is, and how it is written as ChatML text."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from .grammar import pick, typed_by_hand

Role = Literal["system", "user", "assistant"]

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
DOCUMENT_END = "<|endoftext|>"

# Millions of parameters, as the model tells it.
MODEL_SIZE = "4"


@dataclass(frozen=True)
class Turn:
    """One message."""

    role: Role
    text: str


@dataclass(frozen=True)
class Dialogue:
    """Messages in order; the last is always the assistant's."""

    turns: tuple[Turn, ...]

    def render(self) -> str:
        """Return the text a model reads: the chat template's output for these turns."""
        return "".join(f"{TURN_START}{turn.role}\n{turn.text}{TURN_END}\n" for turn in self.turns)


@dataclass
class Known:
    """What the dialogue so far has told the assistant; topics read it and add to it."""

    about_user: dict[str, str] = field(default_factory=dict)
    own_name: str | None = None


def exchange(
    rng: Random,
    questions: tuple[str, ...],
    answers: tuple[str, ...],
    /,
    **slots: str,
) -> list[Turn]:
    """Return one user turn and the assistant's answer, both from templates."""
    return [
        Turn("user", typed_by_hand(rng, pick(rng, questions, **slots), slots.values())),
        Turn("assistant", pick(rng, answers, **slots)),
    ]


@dataclass(frozen=True)
class Entry:
    """A question with its answers, and what to add when the user asks for more."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    more: tuple[str, ...] = ()


_ASK_FOR_MORE = (
    "[Tell me more|Can you tell me more|Can you say more about that|Go on|And then|Say more].",
    "[Interesting|Nice|Okay|I see|Cool]. [Tell me more|Anything else|What else]?",
    "[Can you explain a bit more|Could you explain that further|More details please]?",
)


def entry_turns(rng: Random, entry: Entry) -> list[Turn]:
    """Ask one entry's question, with a request for more a third of the time."""
    turns = exchange(rng, entry.questions, entry.answers, size=MODEL_SIZE)
    if entry.more and rng.random() < 0.12:
        turns += exchange(rng, _ASK_FOR_MORE, entry.more)
    return turns
