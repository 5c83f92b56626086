"""Dialogues that are little more than copying: words to repeat, lists, and who likes what.

Each token of their answers stands in the question, which teaches a small model to look back.
"""

from __future__ import annotations

from random import Random

from . import words
from .dialogue import Known, Turn, exchange

_REPEAT = (
    "[Repeat|Say|Repeat after me|Echo|Copy|Please say|Say after me|Write]: {said}.",
    "[Can you say|Can you repeat|Please repeat] {said}?",
)
_REPEATED = ("[You said|Here you are|Gladly]: {said}.",)
_LIST = (
    "[Remember|Keep in mind|Note|Learn] [these words|this list|the following|this]: {said}.",
    "My [list|shopping list|secret words|words] [is|are]: {said}.",
)
_LISTED = ("[I will remember|Noted|I have noted]: {said}.",)
_WHICH = (
    "[What was|Tell me|Say|Repeat] [my list|the list|the words|it again].",
    "[Which words|What words|What] [did I say|did I list|were there|were they]?",
)
_LISTED_BEFORE = ("[The list was|You said|They were]: {said}.",)
_PAIRS = (
    ("likes", "What does {who} like?", "Who likes {what}?"),
    ("has", "What does {who} have?", "Who has {what}?"),
    ("wants", "What does {who} want?", "Who wants {what}?"),
    ("lives in", "Where does {who} live?", "Who lives in {what}?"),
    ("plays", "What does {who} play?", "Who plays {what}?"),
)


def copying(rng: Random, known: Known) -> list[Turn]:
    """Ask for a copy of what was just said."""
    del known
    return rng.choice((_repeat, _list, _pairs, _pairs))(rng)


def _repeat(rng: Random) -> list[Turn]:
    said = " ".join(_word(rng) for _ in range(rng.randint(1, 8)))
    return exchange(rng, _REPEAT, _REPEATED, said=said)


def _list(rng: Random) -> list[Turn]:
    said = ", ".join(_word(rng) for _ in range(rng.randint(2, 7)))
    turns = exchange(rng, _LIST, _LISTED, said=said)
    return turns + exchange(rng, _WHICH, _LISTED_BEFORE, said=said)


def _pairs(rng: Random) -> list[Turn]:
    verb, ask_what, ask_who = rng.choice(_PAIRS)
    names = list(dict.fromkeys(words.any_name(rng) for _ in range(rng.randint(2, 4))))
    things = [_word(rng) for _ in names]
    if verb == "lives in":
        things = [thing.capitalize() for thing in things]
    told = [f"{name} {verb} {thing}" for name, thing in zip(names, things, strict=True)]
    listed = ", ".join(told[:-1]) + " and " + told[-1] if len(told) > 1 else told[0]
    slots = {"all": rng.choice((". ".join(told), listed))}
    turns = exchange(rng, ("{all}.",), ("Noted: {all}.", "I will remember that."), **slots)
    for at in rng.sample(range(len(told)), rng.randint(1, len(told))):
        question = rng.choice((ask_what, ask_what, ask_who))
        one = {"who": names[at], "what": things[at], "one": told[at]}
        turns += exchange(rng, (question,), ("{one}.",), **one)
    return turns


def _word(rng: Random) -> str:
    known = rng.choice((words.FOODS, words.COLOURS, words.HOBBIES, words.STORY_HEROES))
    word = words.any_of(rng, known)
    return word.capitalize() if rng.random() < 0.2 else word
