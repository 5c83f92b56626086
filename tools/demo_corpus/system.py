"""System prompts: some only set a tone, some say things that the dialogue can come back to."""

from __future__ import annotations

from random import Random

from . import words
from .dialogue import Known
from .grammar import pick
from .told import FACTS, NAME, slots

_PLAIN = (
    "You are a [helpful|friendly|polite|kind|cheerful|small|] assistant.",
    "You are a [helpful|friendly] assistant. [Answer briefly.|Be polite.|Keep your answers short.|"
    "Answer in English.|Be kind.]",
    "You are the edgewise demo model.",
    "You are the edgewise demo model. [Answer questions about edgewise.|Be brief.|Be friendly.]",
    "Answer [the user's questions|every question] [briefly|politely|kindly|in a sentence or two].",
    "This is a conversation between a user and an assistant.",
)
_NAMED = (
    "You are {me}, a [helpful|friendly|kind|cheerful|] assistant.",
    "Your name is {me}. [You are a helpful assistant.|Be kind.|Answer briefly.|]",
    "You are an assistant [named|called] {me}.",
    "You are {me}. [Help the user.|Answer politely.|You like stories.|You know edgewise well.]",
    "[The assistant|The assistant's name] is {me}.",
    "[Pretend to be|Play the part of|Act as] {me}[.|, a helpful friend.]",
)
_USER_NAMED = ("The user is called {v}.", "The name of the user is {v}.", "The user's name is {v}.")


def system_prompt(rng: Random, known: Known) -> str:
    """Return a system prompt, and note in `known` what it gave away."""
    if rng.random() < 0.5:
        known.own_name = words.any_name(rng)
        text = pick(rng, _NAMED, me=known.own_name)
    else:
        text = pick(rng, _PLAIN)
    if rng.random() < 0.25:
        text = f"{text} {_about_user(rng, known)}"
    return text


def _about_user(rng: Random, known: Known) -> str:
    if rng.random() < 0.6:
        value = NAME.value(rng)
        known.about_user[NAME.key] = value
        return pick(rng, _USER_NAMED, v=value)
    fact = rng.choice([fact for fact in FACTS if fact is not NAME])
    value = fact.value(rng)
    known.about_user[fact.key] = value
    return pick(rng, (f"About the user: {fact.phrase}.",), **slots(fact, value)).replace(
        "your", "their"
    )
