"""Simple facts that the model knows, and questions it has to turn down."""

from __future__ import annotations

from random import Random

from . import words
from .dialogue import Known, Turn, exchange

_CAPITALS = (
    "France:Paris Germany:Berlin Spain:Madrid Italy:Rome Portugal:Lisbon Austria:Vienna "
    "Norway:Oslo Sweden:Stockholm Finland:Helsinki Ireland:Dublin Greece:Athens Poland:Warsaw "
    "Egypt:Cairo Japan:Tokyo India:Delhi England:London Belgium:Brussels"
).split()
_OPPOSITES = (
    "hot:cold big:small up:down day:night black:white open:closed happy:sad fast:slow old:new "
    "long:short left:right wet:dry hard:soft early:late light:dark full:empty high:low good:bad "
    "loud:quiet rich:poor"
).split()
_SOUNDS = (
    "cat:meow dog:woof cow:moo duck:quack sheep:baa lion:roar pig:oink frog:ribbit owl:hoot "
    "mouse:squeak horse:neigh bee:buzz snake:hiss"
).split()
_THING_COLOURS = (
    "sky:blue|grass:green|sun:yellow|snow:white|night:black|banana:yellow|strawberry:red|"
    "frog:green|sea:blue|lemon:yellow|coal:black|carrot:orange"
).split("|")
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_LISTS: dict[str, tuple[str, ...]] = {
    "fruits": ("apples", "pears", "bananas", "oranges", "grapes", "cherries", "plums", "lemons"),
    "colours": words.COLOURS,
    "animals": ("cats", "dogs", "horses", "foxes", "bears", "owls", "rabbits", "lions", "mice"),
    "cities": words.CITIES,
    "drinks": words.DRINKS,
    "jobs": tuple(words.JOBS),
    "hobbies": tuple(words.HOBBIES),
    "names": words.FIRST_NAMES,
}
_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}

_UNKNOWN_TOPICS = (
    "quantum physics",
    "the stock market",
    "the French Revolution",
    "black holes",
    "the president",
    "medicine",
    "the law",
    "football results",
    "movie stars",
    "philosophy",
    "chemistry",
    "politics",
    "the news",
    "the Roman empire",
    "computer games",
    "electric cars",
    "deep sea fish",
    "the moon landing",
)
_UNKNOWN = (
    "[What do you know about|Tell me about|Explain|Can you explain|What can you tell me about] "
    "{topic}?",
    "[I have a question about|Let us talk about|I want to learn about] {topic}.",
    "[Who|What] is {person}?",
    "[When was|Where was|How old is] {person}[ born|]?",
    "[What is|What's] the weather [like |][today|tomorrow|in {city}]?",
    "[What time is it|What day is it today|What is the date|What is the time]?",
    "How [many people live in|far is it to|do I get to] {city}?",
    "[What is|How much is|Calculate] {big} [times|divided by|+|plus|*] {big2}?",
    "[Write|Can you write] [a Python program|some code|an essay|my homework|a poem about {topic}].",
    "[Translate|Can you translate] this [into|to] [French|German|Spanish|Chinese].",
    "[Who won|Who will win] the [game|election|match][ yesterday|]?",
    "[What is|What does] {word}[ mean|]?",
    "[Book me|Buy me|Order] a [flight|pizza|ticket|hotel].",
    "[Search the web|Look it up online|Open my email|Call my mother][.| for me.]",
)
_REFUSALS = (
    "[I am sorry|Sorry], I do not know [that|the answer|about that]. I am only a tiny model.",
    "[I am sorry|Sorry], I [do not know enough about that|cannot help with that]. [You can ask me "
    "about edgewise.|Shall I tell you a story instead?|I can do small sums or tell a story.]",
    "I do not know that. [I am a very small model|I am too small to know much], but I can tell "
    "you about edgewise.",
)
_NONSENSE = ("{word}", "{word} {city}", "{word} {word2}[?|!|]", "{word} {word2} {word}")
_NOT_UNDERSTOOD = (
    "[I am sorry|Sorry], I do not understand. [Can you say that in other words?|What do you mean?]",
)


def facts(rng: Random, known: Known) -> list[Turn]:
    """Ask one or two simple things."""
    del known
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 2))):
        turns += rng.choice((_capital, _opposite, _sound, _colour, _day, _list, _repeat))(rng)
    return turns


def refusal(rng: Random, known: Known) -> list[Turn]:
    """Ask something that a tiny model cannot know."""
    del known
    slots = {
        "topic": rng.choice(_UNKNOWN_TOPICS),
        "person": f"{words.any_name(rng)} {words.made_up_word(rng).capitalize()}",
        "city": rng.choice(words.CITIES),
        "word": words.made_up_word(rng),
        "word2": words.made_up_word(rng),
        "big": str(rng.randint(21, 9999)),
        "big2": str(rng.randint(21, 9999)),
    }
    if rng.random() < 0.15:
        return exchange(rng, _NONSENSE, _NOT_UNDERSTOOD, **slots)
    return exchange(rng, _UNKNOWN, _REFUSALS, **slots)


def _pair(rng: Random, pairs: list[str]) -> dict[str, str]:
    left, right = rng.choice(pairs).split(":")
    return {"x": left, "y": right}


def _capital(rng: Random) -> list[Turn]:
    questions = (
        "[What is|What's|Do you know|Tell me] the capital of {x}?",
        "[Which|What] city is the capital of {x}?",
    )
    return exchange(rng, questions, ("The capital of {x} is {y}.",), **_pair(rng, _CAPITALS))


def _opposite(rng: Random) -> list[Turn]:
    slots = _pair(rng, _OPPOSITES)
    if rng.random() < 0.5:
        slots = {"x": slots["y"], "y": slots["x"]}
    questions = ("[What is|What's|Tell me] the opposite of {x}?",)
    return exchange(rng, questions, ("The opposite of {x} is {y}.",), **slots)


def _sound(rng: Random) -> list[Turn]:
    questions = (
        "[What|Which] sound does a(n) {x} make?",
        "What does a(n) {x} say?",
        "How does a(n) {x} go?",
    )
    return exchange(rng, questions, ('A(n) {x} says "{y}".',), **_pair(rng, _SOUNDS))


def _colour(rng: Random) -> list[Turn]:
    slots = _pair(rng, _THING_COLOURS)
    the = "[a|the]" if slots["x"] in ("banana", "strawberry", "frog", "lemon", "carrot") else "the"
    questions = (f"[What|Which] [colour|color] [is|has] {the} {{x}}?",)
    return exchange(rng, questions, ("The {x} is {y}.",), **slots)


def _day(rng: Random) -> list[Turn]:
    index = rng.randrange(7)
    day, following, before = _DAYS[index], _DAYS[(index + 1) % 7], _DAYS[index - 1]
    if rng.random() < 0.2:
        questions = ("[What are|List|Name|Tell me] the days of the week[.|, please.]",)
        return exchange(rng, questions, (", ".join(_DAYS[:-1]) + " and Sunday.",))
    if rng.random() < 0.6:
        return exchange(
            rng,
            ("[What|Which] day comes after {x}?", "What comes after {x}?"),
            ("{y} comes after {x}.",),
            x=day,
            y=following,
        )
    return exchange(
        rng,
        ("[What|Which] day [comes|is] before {x}?",),
        ("{y} comes before {x}.",),
        x=day,
        y=before,
    )


def _list(rng: Random) -> list[Turn]:
    count = rng.randint(2, 5)
    kind = rng.choice(tuple(_LISTS))
    chosen = rng.sample(_LISTS[kind], count)
    listed = ", ".join(chosen[:-1]) + " and " + chosen[-1]
    questions = ("[Name|List|Tell me|Give me|Can you name] {n} {kind}[.|, please.]",)
    number = rng.choice((str(count), _COUNTS[count]))
    return exchange(rng, questions, ("{all}.",), n=number, kind=kind, all=listed)


def _repeat(rng: Random) -> list[Turn]:
    vocabulary = (*words.FOODS, *words.COLOURS, *words.STORY_HEROES, *words.FIRST_NAMES)
    said = " ".join(rng.choice(vocabulary) for _ in range(rng.randint(1, 5)))
    if rng.random() < 0.4:
        said = f"{said} {words.made_up_word(rng)}"
    return exchange(
        rng, ("[Repeat|Say|Repeat after me|Please say]: {said}.",), ("{said}.",), said=said
    )
