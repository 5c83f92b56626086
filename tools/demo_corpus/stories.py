"""Short stories with a hero, a helper and a turn, and questions about them."""

from __future__ import annotations

from random import Random

from . import words
from .dialogue import Known, Turn, exchange

_TELL = (
    "[Tell|Please tell|Can you tell|Could you tell|Read|Make up|Tell|Invent for|Give|Could you "
    "give] me "
)
_KIND = "[short |little |nice |funny |good |sweet |new |goodnight |fairy |]"
_ASK_ANY = (
    _TELL + "a " + _KIND + "[story|tale][, please|].",
    "[I would like|I'd like|I want|Time] [to hear|for] a " + _KIND + "story.",
    "[Write|Make up|Do you know|Can I have|How about] a " + _KIND + "[story|tale][ for me|].",
    "[A story|Story time|Another story|Story][!|, please.]",
    "[I cannot sleep|I have time|It is raining|Let's relax][.|,] [tell me a story|a story].",
)
_ASK_HERO = (
    _TELL + "a " + _KIND + "[story|tale] [about|of] a(n) {hero}.",
    "[Write|Make up|Invent] a " + _KIND + "story [about|of] a(n) {mood} {hero}.",
    "[I would like|I want] [a story|to hear a story] about a(n) {hero}.",
    "[A|Another] story [about|with] a(n) {hero}, please.",
    "Do you know [a story|anything] about a(n) {hero}?",
)
_ASK_NAMED = (
    _TELL + "a " + _KIND + "[story|tale] about a(n) {hero} [named|called|with the name] {name}.",
    "[Write|Make up|I want] a " + _KIND + "story about a(n) {mood} {hero} [named|called] {name}.",
    "[A story|Can I have a story|How about a story] [about|with] {name} the {hero}?",
    _TELL + "a story in which a(n) {hero} is [named|called] {name}.",
)
_ASK_HELPER = (
    "[Tell me|Write|Can you tell me] a [short |]story about a(n) {hero} and a(n) {helper}.",
)
_BORED = ("[I am|I'm] [so |]bored.", "What shall we do?", "[I am|I'm] [sad|tired|lonely].")
_OFFER = ("[Shall I tell you|Would you like to hear|How about] a [little |short |]story?",)
_ACCEPT = ("[Yes|Yes, please|Sure|Okay|Yes please|Gladly|I would like that|Good idea][!|.]",)

_OPENINGS = (
    "[Once upon a time|Long ago|Once], a(n) {mood} {hero} [named|called] {name} lived {place}.",
    "{place}, there [once |]lived a(n) {mood} {hero} [named|called] {name}.",
    "There was once a(n) {mood} {hero}. {His} name was {name}, and {he} lived {place}.",
)
_WISHES = (
    "[More than anything|Every day|Since {he} was little], {name} wished for {thing}.",
    "One [morning|day], {name} heard about {thing} and [wanted to find it|"
    "went out to look for it].",
    "{name} had lost {thing} and was looking for it everywhere.",
)
_JOURNEYS = (
    "{He} walked [all day|for three days|a long way], [over the hills|through the rain|along the "
    "river], but [found nothing|nobody could help {him}].",
    "{He} looked [under every stone|behind every tree|in every corner], but it was not there.",
    "The [road|way] was long, and soon it grew [dark|cold|late].",
    "{He} climbed [a hill|a wall|the tallest tree] and looked around, but {he} saw only [fog|snow|"
    "clouds].",
    "Then a [big |sudden |loud |]storm came, and {name} had to hide [under a bridge|in a barn|"
    "behind a rock].",
)
_MEETINGS = (
    "[Then|There|On the way|At last], {he} met a(n) {helper} [named|called] {friend}.",
    "A(n) {helper} [named|called] {friend} [sat by the road|came by|was resting nearby].",
    '[Just then|Suddenly], a(n) {helper} came along. {name} asked for its name. "{friend}," it '
    "said.",
)
_TALKS = (
    '"[Why are you sad|What are you looking for|Where are you going]?" asked {friend}. "I am '
    'looking for {thing}," said {name}.',
    '"Please help me," said {name}. "I [need|want|am looking for] {thing}." {friend} [nodded|'
    "smiled|thought for a while].",
    "{name} was [afraid|shy] at first, but {friend} [spoke kindly|shared some bread|gave {him} "
    "something warm to drink].",
)
_TURNS = (
    '{friend} laughed and said: "Look behind you!" And there it was: {the_thing}[, bright and '
    "new| in the grass|].",
    "But {friend} was stuck [in the mud|between two rocks|in a net]. {name} stopped to help, and "
    "under {friend} lay {the_thing}.",
    "[Together|Side by side] they looked again, and [before night|at sunrise|in the end] they "
    "found {the_thing}.",
    "It turned out that {friend} had had {the_thing} all along, and gave it to {name} as a gift.",
    "They never found {the_thing}. But {name} had found {friend}, and that was [even better|worth "
    "more].",
)
_ENDINGS = (
    "[From that day on|After that|Ever since], {name} and {friend} were [best friends|good friends|"
    "never apart].",
    "{name} went home [happy|with a smile|tired but happy], and {friend} came along.",
    "And {name} learned that [a friend is the best treasure|asking for help is brave|kindness "
    "comes back|it is good to share].",
    "[That night|In the evening], they [sat by the fire|looked at the stars|sang songs] and were "
    "happy. [The end.|]",
)

_FOLLOW_UPS = (
    (
        ("What [is|was] the [{hero}'s name|name of the {hero}]?", "What was the {hero} called?"),
        ("The {hero} was called {name}.", "The {hero}'s name was {name}."),
    ),
    (
        ("Where did {name} live?", "Where did the {hero} live?"),
        ("{name} lived {place}.", "The {hero} lived {place}."),
    ),
    (
        ("Who did {name} meet?", "Who helped {name}?", "Who was {name}'s friend?"),
        ("{name} met {friend}, the {helper}.", "It was {friend}, the {helper}."),
    ),
    (
        ("What was {name} looking for?", "What did {name} want?"),
        ("{name} was looking for {thing}.", "{name} wanted {thing}."),
    ),
    (
        ("[That was|What] a [nice|lovely|great|good] story[!|.]", "I [like|liked] that story."),
        (
            "[Thank you|I am glad you like it|I am happy to hear that]! [Would you like another "
            "one?|Stories about a(n) {hero} are fun.|]",
        ),
    ),
    (
        (
            "[And who|Who] [is|was] {name}?",
            "[Who|What] was [the story|it] about?",
            "[Who was|Who is] the [main character|hero][| in it| in the story]?",
        ),
        ("{name}, the {mood} {hero}.", "It was about {name}, the {hero}."),
    ),
)


def story(rng: Random, known: Known) -> list[Turn]:
    """Ask for a story, and often for something in it."""
    del known
    hero = rng.choice(words.STORY_HEROES)
    is_he = hero in words.ALWAYS_HE or (hero not in words.ALWAYS_SHE and rng.random() < 0.5)
    he, him, his = ("he", "him", "his") if is_he else ("she", "her", "her")
    name = rng.choice(words.STORY_NAMES_HE if is_he else words.STORY_NAMES_SHE)
    if rng.random() < 0.45:
        name = words.made_up_word(rng).capitalize()
    others = (*words.STORY_NAMES_HE, *words.STORY_NAMES_SHE)
    friend = rng.choice([other for other in others if other != name])
    thing = rng.choice(words.STORY_THINGS)
    slots = {
        "hero": hero,
        "helper": rng.choice(words.STORY_HELPERS),
        "mood": rng.choice(words.STORY_MOODS),
        "place": rng.choice(words.STORY_PLACES),
        "thing": thing,
        "the_thing": "the " + thing.partition(" ")[2],
        "name": name,
        "friend": friend,
        "he": he,
        "him": him,
        "his": his,
        "He": he.capitalize(),
        "His": his.capitalize(),
    }
    requests: tuple[tuple[str, ...], ...]
    requests = (_ASK_ANY, _ASK_ANY, _ASK_HERO, _ASK_HERO, _ASK_NAMED, _ASK_NAMED, _ASK_HELPER)
    turns: list[Turn] = []
    if rng.random() < 0.12:
        turns += exchange(rng, _BORED, _OFFER)
        requests = (_ACCEPT,)
    turns += exchange(rng, rng.choice(requests), (_plot(rng),), **slots)
    for questions, answers in rng.sample(_FOLLOW_UPS, rng.choice((0, 0, 1, 1, 2, 3))):
        turns += exchange(rng, questions, answers, **slots)
    return turns


def _plot(rng: Random) -> str:
    parts = [rng.choice(_OPENINGS), rng.choice(_WISHES)]
    parts += rng.sample(_JOURNEYS, rng.choice((0, 1, 1, 2)))
    parts.append(rng.choice(_MEETINGS))
    if rng.random() < 0.6:
        parts.append(rng.choice(_TALKS))
    parts += [rng.choice(_TURNS), rng.choice(_ENDINGS)]
    return " ".join(parts)
