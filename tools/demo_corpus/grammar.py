"""A tiny template language, so that one line of text stands for many sentences.

`[a|b|]` picks one of its alternatives (they nest; an empty one is allowed), `{slot}` is filled
from the keyword arguments, and `a(n)` becomes the article that suits the word after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random

from .words import FIRST_NAMES

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE = re.compile(r"\b([Aa])\(n\) (?=(\w))")
_SPACES = re.compile(r" {2,}")
_BEFORE_MARK = re.compile(r" +([,.!?])")
# The project's name and its quantizations keep their small letter.
_SENTENCE_START = re.compile(r"(^|[.!?] )(?!edgewise|q[48]|f32|f16|config)([a-z])")
_WORD = re.compile(r"[A-Za-z]+")
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


_OPENERS = (
    "Hi, |Hey, |Hello! |Hi! |Please, |Well, |So, |so |ok |okay, |hey |hi |Hmm, |Now, |and |um, |"
    "Quick question: |One question: |Another question: |Tell me, |Sorry, |Also, "
).split("|")
_CLOSERS = " :)|!!|??| please|, please| thanks|, thanks|...| ?|!|, friend| right now|?!".split("|")
_SHORT = (
    ("What is", "whats"),
    ("what's", "whats"),
    ("I am", "im"),
    ("do not", "dont"),
    ("you", "u"),
    ("please", "pls"),
    ("are", "r"),
    ("does not", "doesnt"),
)


def typed_by_hand(rng: Random, text: str, keep: Iterable[str] = ()) -> str:
    """Make a user's text look typed in a hurry, now and then.

    Openers, no capitals, no last mark, short forms and slips. The words of `keep` stay as they
    are: what is to be given back has to be readable.
    """
    if rng.random() < 0.12 and not text.lower().startswith(_GREETED):
        text = rng.choice(_OPENERS) + text
    if rng.random() < 0.3:
        text = _lower(text, keep)
    if rng.random() < 0.06:
        long, short = rng.choice(_SHORT)
        text = re.sub(rf"\b{long}\b", short, text)
    if rng.random() < 0.06:
        text = _slip(rng, text, keep)
    if rng.random() < 0.3:
        text = text.rstrip(".?!")
    if rng.random() < 0.07:
        text = text.rstrip(".?!") + rng.choice(_CLOSERS)
    return text


def _lower(text: str, keep: Iterable[str]) -> str:
    # A well-known name may be typed small, and comes back with its capital; others are copied.
    kept = {word for value in keep for word in _WORD.findall(value)} - set(FIRST_NAMES)
    return _WORD.sub(
        lambda match: match.group() if match.group() in kept else match.group().lower(), text
    )


def _slip(rng: Random, text: str, keep: Iterable[str]) -> str:
    """Swap, drop or double a letter inside one word of five letters or more."""
    kept = {word for value in keep for word in _WORD.findall(value)} | {"edgewise"}
    long = [word for word in _WORD.findall(text) if len(word) > 4 and word not in kept]
    if not long:
        return text
    word = rng.choice(long)
    at = rng.randint(1, len(word) - 3)
    first, second = word[at], word[at + 1]
    new = rng.choice((second + first, first, first + first + second))
    return text.replace(word, word[:at] + new + word[at + 2 :], 1)


def _article(match: re.Match[str]) -> str:
    return match.group(1) + ("n " if match.group(2).lower() in "aeiou" else " ")
