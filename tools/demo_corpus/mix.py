"""One dialogue out of all the topics."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .arithmetic import numbers, sums
from .copying import copying
from .dialogue import Dialogue, Known, Turn
from .edgewise import about_edgewise
from .facts import facts, refusal
from .memory import recall, tell
from .small_talk import chat, goodbye, greeting, who_are_you
from .stories import story
from .system import system_prompt

_TOPICS: tuple[tuple[Callable[[Random, Known], list[Turn]], int], ...] = (
    (tell, 38),
    (recall, 36),
    (copying, 40),
    (sums, 15),
    (numbers, 2),
    (story, 9),
    (about_edgewise, 34),
    (chat, 13),
    (who_are_you, 6),
    (facts, 5),
    (refusal, 8),
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
