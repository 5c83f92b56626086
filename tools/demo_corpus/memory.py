"""Dialogues in which the user tells something and asks for it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from . import words
from .dialogue import Known, Turn, exchange
from .grammar import pick


@dataclass(frozen=True)
class Fact:
    """One thing a user may tell: how it is said, confirmed, asked for, repeated and missed."""

    key: str
    value: Callable[[Random], str]
    tell: tuple[str, ...]
    confirm: tuple[str, ...]
    ask: tuple[str, ...]
    recall: tuple[str, ...]
    phrase: str
    what: str


def _one_of(values: Sequence[str]) -> Callable[[Random], str]:
    return lambda rng: rng.choice(values)


_REMEMBER = "[I will remember that.|I will keep that in mind.|Noted.|Thanks for telling me.|]"

NAME = Fact(
    "name",
    words.any_name,
    (
        "[Hi, |Hello, |Hello! |Hey, |]my name is {v}.",
        "[Hi! |Hello, |Hey there, |]I am {v}.",
        "[Hi, |Hello, |]I'm {v}.",
        "[You can call me|Call me|Please call me|My friends call me] {v}.",
    ),
    (
        "[Nice|Good|Pleased|Lovely] to meet you, {v}! [How can I help you today?|How are you?|"
        "What would you like to talk about?|]",
        "Hello {v}! [How can I help you?|What can I do for you?|It is nice to meet you.]",
        "Hi {v}! [It is good to meet you.|What shall we talk about?]",
    ),
    (
        "[What is|What's|Do you remember|Can you tell me|Do you know] my name?",
        "[Who am I|What am I called|What did I say my name was]?",
    ),
    ("Your name is {v}.", "[You told me that|You said] your name is {v}.", "You are {v}."),
    "your name is {v}",
    "your name",
)
_COLOUR = Fact(
    "colour",
    _one_of(words.COLOURS),
    (
        "My [favourite|favorite] [colour|color] is {v}.",
        "I [like|love] the [colour|color] {v}[ most| best|].",
        "{v} is my [favourite|favorite] [colour|color].",
    ),
    (
        "{v} is a [lovely|beautiful|great|nice] colour! " + _REMEMBER,
        "[Good choice!|How nice!|Great!] Your favourite colour is {v}. " + _REMEMBER,
    ),
    (
        "[What is|What's|Do you remember|Can you tell me] my [favourite|favorite] [colour|color]?",
        "[Which|What] [colour|color] do I like[ most|]?",
    ),
    ("Your favourite colour is {v}.", "You [said|told me] that your favourite colour is {v}."),
    "your favourite colour is {v}",
    "your favourite colour",
)
_FOOD = Fact(
    "food",
    _one_of(words.FOODS),
    (
        "My [favourite|favorite] food is {v}.",
        "I [like|love|really like] [to eat|eating] {v}.",
        "I could eat {v} every day.",
    ),
    (
        "{v}! [That sounds delicious.|Yum!|A fine choice.] " + _REMEMBER,
        "[Delicious!|Tasty!] So you like {v}. " + _REMEMBER,
    ),
    (
        "[What is|What's|Do you remember] my [favourite|favorite] food?",
        "What do I [like|love] to eat?",
    ),
    ("Your favourite food is {v}.", "You like {v}.", "You told me that you like to eat {v}."),
    "you like to eat {v}",
    "your favourite food",
)
_CITY = Fact(
    "city",
    _one_of(words.CITIES),
    ("I live in {v}.", "[I am|I'm] from {v}.", "My home is in {v}.", "I moved to {v} last year."),
    (
        "{v} [sounds like a lovely place|is a fine city|must be a nice place to live]! "
        + _REMEMBER,
        "[How nice!|Good to know!] What do you like about {v}?",
    ),
    ("Where do I live?", "[Which|What] city [do I live in|am I from]?", "Where am I from?"),
    ("You live in {v}.", "You told me that you live in {v}."),
    "you live in {v}",
    "where you live",
)
_HOBBY = Fact(
    "hobby",
    _one_of(words.HOBBIES),
    ("My hobby is {v}.", "[I like|I love|I enjoy] {v}[ in my free time| on weekends|]."),
    (
        "{v} is a [great|wonderful|fun] hobby! " + _REMEMBER,
        "[That sounds fun!|How nice!] How often do you have time for {v}?",
    ),
    (
        "What is my hobby?",
        "What do I [like|enjoy|love] doing[ in my free time|]?",
        "Do you remember my hobby?",
    ),
    ("Your hobby is {v}.", "You enjoy {v}.", "You told me that you like {v}."),
    "your hobby is {v}",
    "your hobby",
)
_JOB = Fact(
    "job",
    _one_of(words.JOBS),
    ("[I am|I'm] a(n) {v}.", "I work as a(n) {v}.", "My job? I am a(n) {v}."),
    ("[Being|To be] a(n) {v} [sounds|must be] interesting! " + _REMEMBER, "A(n) {v}! How nice."),
    ("What is my job?", "What do I do for [a living|work]?", "Do you remember my job?"),
    ("You are a(n) {v}.", "You work as a(n) {v}."),
    "you work as a(n) {v}",
    "your job",
)
_DRINK = Fact(
    "drink",
    _one_of(words.DRINKS),
    ("My [favourite|favorite] drink is {v}.", "I [like|love] to drink {v}."),
    ("{v} is a good choice. " + _REMEMBER, "[Nice!|Good!] A cup of {v} is always welcome."),
    ("What is my [favourite|favorite] drink?", "What do I like to drink?"),
    ("Your favourite drink is {v}.", "You like to drink {v}."),
    "you like to drink {v}",
    "your favourite drink",
)
_PET_NAME = Fact(
    "pet",
    lambda rng: f"{rng.choice(words.PETS)}|{rng.choice(words.PET_NAMES)}",
    (
        "I have a {kind} [named|called] {v}.",
        "My {kind} is called {v}.",
        "My {kind}'s name is {v}.",
        "I have a pet {kind}. Its name is {v}.",
    ),
    (
        "{v} is a [lovely|cute|great|good] name for a {kind}! " + _REMEMBER,
        "[How sweet!|How nice!|Aww!] Say hello to {v} from me.",
    ),
    (
        "What is [the name of my {kind}|my {kind}'s name|my pet's name|my {kind} called]?",
        "[Do you remember|Can you tell me] [the name of my {kind}|my {kind}'s name]?",
    ),
    ("Your {kind} is called {v}.", "Your {kind}'s name is {v}.", "{v} is the name of your {kind}."),
    "you have a {kind} called {v}",
    "your pet's name",
)

FACTS = (NAME, NAME, _COLOUR, _COLOUR, _FOOD, _CITY, _HOBBY, _JOB, _DRINK, _PET_NAME, _PET_NAME)
_BY_KEY = {fact.key: fact for fact in FACTS}

_NOT_TOLD = (
    "[I am sorry, |Sorry, |]I do not know {what}. You have not told me[ yet|].",
    "You have not told me {what} yet. [What is it?|Would you like to tell me?|]",
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


def slots(fact: Fact, value: str) -> dict[str, str]:
    """Return the template slots that stand for `value`."""
    kind, _, name = value.rpartition("|")
    return {"v": name, "kind": kind or "pet"}


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
    return exchange(rng, fact.tell, fact.confirm, **slots(fact, known.about_user[fact.key]))


def _tell_and_ask(rng: Random, known: Known, fact: Fact) -> list[Turn]:
    filled = slots(fact, known.about_user[fact.key])
    both = (pick(rng, fact.tell, **filled) + " " + pick(rng, fact.ask, **filled),)
    return exchange(rng, both, fact.recall, **filled)


def _tell_two(rng: Random, known: Known, fact: Fact) -> list[Turn]:
    other = rng.choice([other for other in FACTS if other.key != fact.key])
    known.about_user[other.key] = other.value(rng)
    said = [
        pick(rng, each.tell, **slots(each, known.about_user[each.key])) for each in (fact, other)
    ]
    return exchange(rng, (" ".join(said),), _BOTH)


def recall(rng: Random, known: Known) -> list[Turn]:
    """Ask for something told before, or for something never told."""
    told = list(known.about_user)
    if len(told) > 1 and rng.random() < 0.15:
        phrases = [_phrase(_BY_KEY[key], known.about_user[key]) for key in told]
        listed = ", ".join(phrases[:-1]) + " and " + phrases[-1]
        answers = ("[I know that|You told me that] {all}.",)
        return exchange(rng, _ASK_EVERYTHING, answers, all=listed)
    if told and rng.random() < 0.8:
        fact = _BY_KEY[rng.choice(told)]
        return exchange(rng, fact.ask, fact.recall, **slots(fact, known.about_user[fact.key]))
    fact = rng.choice(FACTS)
    if fact.key in known.about_user:
        return exchange(rng, fact.ask, fact.recall, **slots(fact, known.about_user[fact.key]))
    return exchange(rng, fact.ask, _NOT_TOLD, what=fact.what, kind=rng.choice(words.PETS))


def _phrase(fact: Fact, value: str) -> str:
    filled = slots(fact, value)
    article = "an " if filled["v"][0] in "aeiou" else "a "
    return fact.phrase.replace("a(n) ", article).format(**filled)
