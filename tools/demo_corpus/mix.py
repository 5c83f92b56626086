"""One dialogue out of all the topics."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .arithmetic import numbers, sums
from .dialogue import Dialogue, Known, Turn
from .edgewise import about_edgewise
from .facts import facts, refusal
from .memory import recall, tell
from .small_talk import chat, goodbye, greeting, who_are_you
from .stories import story
from .system import system_prompt

_TOPICS: tuple[tuple[Callable[[Random, Known], list[Turn]], int], ...] = (
    (tell, 22),
    (recall, 28),
    (sums, 12),
    (numbers, 5),
    (story, 13),
    (about_edgewise, 15),
    (chat, 11),
    (who_are_you, 4),
    (facts, 9),
    (refusal, 7),
)
_FUNCTIONS = tuple(function for function, _ in _TOPICS)
_WEIGHTS = tuple(weight for _, weight in _TOPICS)


def generate(seed: int, index: int, *, blocks: tuple[int, int] = (1, 5)) -> Dialogue:
    """Return dialogue number `index` of `seed`, with some `blocks` of talk (lowest, highest)."""
    rng = Random(f"{seed}/{index}")
    known = Known()
    turns: list[Turn] = []
    if rng.random() < 0.3:
        turns.append(Turn("system", system_prompt(rng, known)))
    if rng.random() < 0.25:
        turns += greeting(rng, known)
    for _ in range(rng.randint(*blocks)):
        turns += rng.choices(_FUNCTIONS, _WEIGHTS)[0](rng, known)
    if rng.random() < 0.15:
        turns += goodbye(rng, known)
    return Dialogue(tuple(turns))
