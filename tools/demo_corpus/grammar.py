"""A tiny template language, so that one line of text stands for many sentences.

`[a|b|]` picks one of its alternatives (they nest; an empty one is allowed), `{slot}` is filled
from the keyword arguments, and `a(n)` becomes the article that suits the word after it.
"""

from __future__ import annotations

import re
from random import Random

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE = re.compile(r"\b([Aa])\(n\) (?=(\w))")
_SPACES = re.compile(r" {2,}")
_BEFORE_MARK = re.compile(r" +([,.!?])")
# The project's name and its quantizations keep their small letter.
_SENTENCE_START = re.compile(r"(^|[.!?] )(?!edgewise|q[48])([a-z])")
_GREETED = ("hi", "hello", "hey", "good ", "greetings", "howdy", "bye", "goodbye", "see you")


def expand(rng: Random, template: str, /, **slots: str) -> str:
    """Return one sentence that `template` stands for."""
    text = template
    while _INNERMOST.search(text):
        text = _INNERMOST.sub(lambda match: rng.choice(match.group(1).split("|")), text)
    # Slots come after the alternatives: a value never takes part in the template language.
    text = text.format(**slots) if slots else text
    text = _ARTICLE.sub(_article, text)
    text = _BEFORE_MARK.sub(r"\1", _SPACES.sub(" ", text))
    return text.strip()


def pick(rng: Random, templates: tuple[str, ...], /, **slots: str) -> str:
    """Expand one of `templates`, with capitals at the starts of its sentences."""
    return sentence_case(expand(rng, rng.choice(templates), **slots))


def sentence_case(text: str) -> str:
    """Put a capital at the start of each sentence that lacks one."""
    return _SENTENCE_START.sub(lambda match: match.group(1) + match.group(2).upper(), text)


def typed_by_hand(rng: Random, text: str) -> str:
    """Make a user's text look typed in a hurry, now and then: no capitals, no last mark."""
    if rng.random() < 0.03 and not text.lower().startswith(_GREETED):
        text = rng.choice(("Hi, ", "Hey, ", "Hello! ", "Hi! ", "Please, ", "Well, ", "So, ")) + text
    if rng.random() < 0.22:
        text = text.lower()
    if rng.random() < 0.28:
        text = text.rstrip(".?!")
    if rng.random() < 0.04:
        text = text + rng.choice((" :)", "!!", "??", " please"))
    return text


def _article(match: re.Match[str]) -> str:
    return match.group(1) + ("n " if match.group(2).lower() in "aeiou" else " ")
