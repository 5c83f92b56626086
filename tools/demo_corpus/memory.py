"""Dialogues in which the user tells something and asks for it again."""

from __future__ import annotations

from random import Random

from . import words
from .dialogue import Known, Turn, exchange
from .grammar import pick, typed_by_hand
from .told import BY_KEY, FACTS, Fact, slots

_NOT_TOLD = (
    "[I am sorry, |Sorry, |]I do not know {what}. You have not told me[ yet|].",
    "You have not told me {what} yet. [What is it?|Would you like to tell me?|]",
)
_ASK_OTHER = (
    "[What is|What's|Do you know|Tell me] my [favourite|favorite|fav] {thing}?",
    "[Which|What] {thing} do I [like|love|prefer][ most|]?",
)
_BOTH = (
    "[Thank you|Thanks] for telling me! [I will remember that.|I will keep that in mind.|]",
    "[How nice!|Good to know!|That is nice.] [I will remember that.|Tell me more!|]",
)
_ASK_EVERYTHING = (
    "What do you [know|remember] about me?",
    "[Tell me|Can you say] what you know about me[.|, please.]",
    "What have I told you[ so far| about me|]?",
)


def tell(rng: Random, known: Known) -> list[Turn]:
    """Let the user tell one thing, or two at once."""
    new = [fact for fact in FACTS if fact.key not in known.about_user]
    if not new:
        return recall(rng, known)
    fact = rng.choice(new)
    known.about_user[fact.key] = fact.value(rng)
    draw = rng.random()
    if draw < 0.08:
        return _tell_and_ask(rng, known, fact)
    if draw < 0.25:
        return _tell_two(rng, known, fact)
    filled = slots(fact, known.about_user[fact.key])
    turns = exchange(rng, fact.tell, fact.confirm, **filled)
    if rng.random() < 0.4:
        turns += exchange(rng, fact.ask, fact.recall, **filled)
    return turns


def _tell_and_ask(rng: Random, known: Known, fact: Fact) -> list[Turn]:
    filled = slots(fact, known.about_user[fact.key])
    both = (pick(rng, fact.tell, **filled) + " " + pick(rng, fact.ask, **filled),)
    return exchange(rng, both, fact.recall, **filled)


def _tell_two(rng: Random, known: Known, fact: Fact) -> list[Turn]:
    other = rng.choice([other for other in FACTS if other.key != fact.key])
    known.about_user[other.key] = other.value(rng)
    values = [known.about_user[each.key] for each in (fact, other)]
    first, second = (
        pick(rng, each.tell, **slots(each, value))
        for each, value in zip((fact, other), values, strict=True)
    )
    said = f"{first} {second}"
    if rng.random() < 0.6 and second[:2] in ("My", "I ", "We"):
        second = second if second[0] == "I" else second[0].lower() + second[1:]
        said = f"{first.rstrip('.!')} and {second}"
    kept = [slots(each, value)["v"] for each, value in zip((fact, other), values, strict=True)]
    return [
        Turn("user", typed_by_hand(rng, said, kept)),
        Turn("assistant", pick(rng, _BOTH)),
    ]


def recall(rng: Random, known: Known) -> list[Turn]:
    """Ask for something told before, or for something never told."""
    told = list(known.about_user)
    if len(told) > 1 and rng.random() < 0.15:
        phrases = [_phrase(BY_KEY[key], known.about_user[key]) for key in told]
        listed = ", ".join(phrases[:-1]) + " and " + phrases[-1]
        answers = ("[I know that|You told me that] {all}.",)
        return exchange(rng, _ASK_EVERYTHING, answers, all=listed)
    if told and rng.random() < 0.8:
        fact = BY_KEY[rng.choice(told)]
        return exchange(rng, fact.ask, fact.recall, **slots(fact, known.about_user[fact.key]))
    fact = rng.choice(FACTS)
    if fact.key in known.about_user:
        return exchange(rng, fact.ask, fact.recall, **slots(fact, known.about_user[fact.key]))
    if rng.random() < 0.15:
        return exchange(rng, _ASK_OTHER, _NOT_TOLD, what="that", thing=rng.choice(words.OTHER))
    kind = rng.choice(words.PEOPLE if fact.key == "person" else words.PETS)
    return exchange(rng, fact.ask, _NOT_TOLD, what=fact.what, kind=kind)


def _phrase(fact: Fact, value: str) -> str:
    filled = slots(fact, value)
    article = "an " if filled["v"][0] in "aeiou" else "a "
    return fact.phrase.replace("a(n) ", article).format(**filled)
