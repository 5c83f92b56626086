"""What a user may tell about themselves, and the ways it is said and asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import words


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


_REMEMBER = "[I will remember that.|I will keep that in mind.|Noted.|Thanks for telling me.|]"
_ASK = (
    "[What is|What's|whats|Do you remember|Can you tell me|Do you know|Tell me|Remind me,|And what "
    "is|So what is|I forgot, what is|Now, what is|Please tell me] "
)
_SAID = "[|You told me that |You said that |As you said, ]"

NAME = Fact(
    "name",
    words.any_name,
    (
        "[Hi, |Hello, |Hello! |Hey, |hi |So, |Well, |]my name is {v}[.|!|, by the way.]",
        "[Hi! |Hello, |Hey there, |hey |Good morning, |]I am {v}[.|!|, hello!|, pleased to meet "
        "you.|, how are you?]",
        "[Hi, |Hello, |Hey |]I'm {v}[.|!|, a new user.|, good to see you.]",
        "[You can call me|Call me|Please call me|My friends call me|People call me|They call me|"
        "Everyone calls me] {v}[.|, thanks.|, okay?]",
        "[Hi|Hello|Hey][,|!] [{v} here|this is {v}|it's {v}|{v} speaking][.|!]",
        "[My name's|The name is|The name's|I am called|I'm called|I go by] {v}[.| and "
        "I like to talk.|, and you?]",
    ),
    (
        "[Nice|Good|Pleased|Lovely] to meet you, {v}! [How can I help you today?|How are you?|"
        "What would you like to talk about?|]",
        "[Hello|Hi|Welcome], {v}! [How can I help you?|What can I do for you?|It is nice to meet "
        "you.]",
    ),
    (
        _ASK + "my name[| again| please| now]?",
        "[Who am I|What am I called|What did I say my name was|How am I called|What do people call "
        "me|Do you know who I am|What should you call me|And my name|Say my name|My name]?",
        "[Have you forgotten|Did you remember|You remember|Can you repeat] my name?",
    ),
    (_SAID + "your name is {v}.", "You are {v}."),
    "your name is {v}",
    "your name",
)
_COLOUR = Fact(
    "colour",
    lambda rng: words.any_of(rng, words.COLOURS),
    (
        "My [favourite|favorite|fav] [colour|color] is {v}[.|!|, by the way.]",
        "I [like|love|prefer] the [colour|color] {v}[ most| best|].",
        "{v} is [my [favourite|favorite]|the nicest|the most beautiful] [colour|color][.|, I "
        "think.|, really.]",
        "I [really |]like {v}, it is [my colour|a great color|the colour I like most].",
    ),
    (
        "{v} is a [lovely|beautiful|great|nice] colour! " + _REMEMBER,
        "[Good choice!|How nice!|Great!] Your favourite colour is {v}. " + _REMEMBER,
    ),
    (
        _ASK + "my [favourite|favorite|fav] [colour|color]?",
        "[Which|What] [colour|color] do I [like|love|prefer][ most|]?",
        "[Which|What] [colour|color] [did I say I like|did I mention|is mine|was it]?",
    ),
    (_SAID + "your favourite colour is {v}.", "It is {v}."),
    "your favourite colour is {v}",
    "your favourite colour",
)
_FOOD = Fact(
    "food",
    lambda rng: words.any_of(rng, words.FOODS),
    (
        "My [favourite|favorite] [food|dish|meal] is {v}.",
        "I [like|love|really like] [to eat|eating] {v}.",
        "[I could eat {v} every day|Nothing tastes better than {v}|I cook {v} very often].",
    ),
    (
        "{v}! [That sounds delicious.|Yum!|A fine choice.] " + _REMEMBER,
        "[Delicious!|Tasty!] So you like {v}. " + _REMEMBER,
    ),
    (
        _ASK + "my [favourite|favorite] [food|dish|meal]?",
        "What do I [like|love] to eat?",
        "[Which|What] [dish|meal] do I [like|love]?",
    ),
    (_SAID + "your favourite food is {v}.", "You like {v}."),
    "you like to eat {v}",
    "your favourite food",
)
_CITY = Fact(
    "city",
    lambda rng: words.any_of(rng, words.CITIES, capital=True),
    (
        "I live in {v}[.|, it is nice here.]",
        "[I am|I'm] from {v}.",
        "My home is in {v}.",
        "I [moved to {v} last year|come from {v}|grew up in {v}].",
        "[My town is|My city is] {v}.",
    ),
    (
        "{v} [sounds like a lovely place|is a fine city|must be a nice place to live]! "
        + _REMEMBER,
        "[How nice!|Good to know!] What do you like about {v}?",
    ),
    (
        "[Where do I live|Where is my home|Where am I from|Where do I come from|And where do I "
        "live]?",
        "[Which|What] [city|town] [do I live in|am I from|is my home]?",
        "[Do you remember|Do you know|Tell me] where I [live|come from|am from].",
    ),
    (_SAID + "you live in {v}.", "In {v}."),
    "you live in {v}",
    "where you live",
)
_HOBBY = Fact(
    "hobby",
    lambda rng: words.any_of(rng, words.HOBBIES),
    (
        "My hobby is {v}.",
        "[I like|I love|I enjoy] {v}[ in my free time| on weekends|].",
        "[At the weekend I do|I spend my evenings with|I am into|I'm good at] {v}.",
    ),
    (
        "{v} is a [great|wonderful|fun] hobby! " + _REMEMBER,
        "[That sounds fun!|How nice!] How often do you have time for {v}?",
    ),
    (
        _ASK + "my hobby?",
        "What do I [like|enjoy|love] doing[ in my free time|]?",
        "[What do I do|How do I spend my time] [for fun|on weekends]?",
    ),
    (_SAID + "your hobby is {v}.", "You enjoy {v}."),
    "your hobby is {v}",
    "your hobby",
)
_JOB = Fact(
    "job",
    lambda rng: words.any_of(rng, words.JOBS),
    (
        "[I am|I'm] a(n) {v}.",
        "I work as a(n) {v}[.|, and I like it.]",
        "My job? I am a(n) {v}.",
        "[My job is to be a(n) {v}|I earn my money as a(n) {v}|By profession I am a(n) {v}].",
    ),
    ("[Being|To be] a(n) {v} [sounds|must be] interesting! " + _REMEMBER, "A(n) {v}! How nice."),
    (
        _ASK + "my [job|profession|work]?",
        "What do I do for [a living|work]?",
        "[What do I work as|What kind of work do I do|What am I by profession]?",
    ),
    ("You are a(n) {v}.", _SAID + "you work as a(n) {v}."),
    "you work as a(n) {v}",
    "your job",
)
_DRINK = Fact(
    "drink",
    lambda rng: words.any_of(rng, words.DRINKS),
    (
        "My [favourite|favorite] drink is {v}.",
        "I [like|love] to drink {v}.",
        "I drink {v} [every day|in the morning|all the time].",
    ),
    ("{v} is a good choice. " + _REMEMBER, "[Nice!|Good!] A cup of {v} is always welcome."),
    (_ASK + "my [favourite|favorite] drink?", "What do I [like|love] to drink?"),
    (_SAID + "your favourite drink is {v}.", "You like to drink {v}."),
    "you like to drink {v}",
    "your favourite drink",
)
_AGE = Fact(
    "age",
    lambda rng: str(rng.randint(6, 99)),
    (
        "[I am|I'm] {v}[| years old].",
        "My age is {v}.",
        "I [turned|became] {v} [this year|yesterday|last week].",
    ),
    (
        "{v} is a [fine|good|great] age! " + _REMEMBER,
        "So you are {v} years old. " + _REMEMBER,
    ),
    (
        "[How old am I|What is my age|What's my age|And how old am I]?",
        "[Do you know|Do you remember|Tell me] how old I am.",
    ),
    (_SAID + "you are {v} years old.", "You are {v}."),
    "you are {v} years old",
    "your age",
)
_PET_NAME = Fact(
    "pet",
    lambda rng: f"{rng.choice(words.PETS)}|{words.any_of(rng, words.PET_NAMES, capital=True)}",
    (
        "I have a {kind} [named|called] {v}[.|, so sweet!]",
        "My {kind} is [called|named] {v}.",
        "My {kind}'s name is {v}.",
        "I have a [pet |little |]{kind}. [Its|His|Her] name is {v}.",
        "[We have|We got|There is] a [new |young |]{kind} [at home, |, ][we call [it|him|her]|its "
        "name is|called] {v}.",
        "{v} is [my|our] {kind}[.|, and very old.|, a sweet one.]",
        "We named our {kind} {v}.",
    ),
    (
        "{v} is a [lovely|cute|great|good] name for a {kind}! " + _REMEMBER,
        "[How sweet!|How nice!|Aww!] Say hello to {v} from me.",
    ),
    (
        "[What is|What's|Tell me] [the name of [my|our] {kind}|[my|our] {kind}'s name|my pet's "
        "name|[my|our] {kind} called].",
        "[Do you remember|Can you tell me|Do you know] [the name of my {kind}|my {kind}'s name]?",
        "[How is|And how is] [my|our] {kind} called?",
        "[What did I name|What do I call|What name has] [my|our] {kind}?",
        "[Who is|And] my {kind}?",
    ),
    ("Your {kind} is called {v}.", "Your {kind}'s name is {v}.", "{v} is the name of your {kind}."),
    "you have a {kind} called {v}",
    "your pet's name",
)
_PERSON = Fact(
    "person",
    lambda rng: f"{rng.choice(words.PEOPLE)}|{words.any_name(rng)}",
    (
        "My {kind} is [called|named] {v}.",
        "My {kind}'s name is {v}.",
        "I have a {kind} [named|called] {v}.",
        "{v} is my {kind}.",
    ),
    (
        "{v} is a [nice|good|lovely] name. " + _REMEMBER,
        "[How nice!|Good to know!] Say hello to {v} from me.",
    ),
    (
        "[What is|What's|Tell me] [the name of my {kind}|my {kind}'s name|my {kind} called].",
        "[Do you remember|Do you know] [the name of my {kind}|my {kind}'s name]?",
        "[Who is|And who is|How is] my {kind}[| called]?",
    ),
    ("Your {kind} is called {v}.", "Your {kind}'s name is {v}."),
    "your {kind} is called {v}",
    "that name",
)

# How often each is told.
FACTS = (
    *(NAME, NAME, NAME, NAME, _COLOUR, _COLOUR, _FOOD, _CITY, _HOBBY, _JOB, _DRINK, _AGE),
    *(_PET_NAME, _PET_NAME, _PET_NAME, _PERSON),
)
BY_KEY = {fact.key: fact for fact in FACTS}


def slots(fact: Fact, value: str) -> dict[str, str]:
    """Return the template slots that stand for `value`."""
    kind, _, name = value.rpartition("|")
    return {"v": name, "kind": kind or "pet"}
