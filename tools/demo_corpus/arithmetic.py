"""Sums and counting, with numbers to 20."""

from __future__ import annotations

from random import Random

from .dialogue import Known, Turn, exchange

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()

_ASK = (
    "[What is|What's|whats|How much is|Calculate|Can you tell me|Tell me|Compute|Work out|Do you "
    "know|Solve|And|Now|]"
)
_ADD = (
    _ASK + " {a} [+|plus] {b}[?||, please.|!]",
    _ASK + " {a}+{b}[?|]",
    "{a} + {b} [=|= ?|is|makes][|?]",
    "[Add|Please add] {a} and {b}.",
    "[What is|What's] the sum of {a} and {b}?",
    "[What do|How much do] {a} and {b} make[| together]?",
)
_SUBTRACT = (
    _ASK + " {a} [-|minus] {b}[?||, please.|!]",
    _ASK + " {a}-{b}[?|]",
    "{a} - {b} [=|= ?|is|makes][|?]",
    "[Subtract|Take|Take away] {b} from {a}.",
    "[What is|What's] {a} less {b}?",
)
_THEN_ADD = (
    "[And|Now|Then|] [plus|add|and add|and] {b}[| to that| more][.|?]",
    "[What if I|Now|Please] add {b}[| more| to it]?",
    "[And with|And] {b} more?",
)
_THEN_SUBTRACT = (
    "[And|Now|Then|] [minus|take away|less] {b}[?|.]",
    "[What if I|Now|Please] [subtract|take away] {b}[| from that| from it]?",
)
_FRUIT = tuple(
    "apples pears coins books eggs stones cards balls cookies pencils shells marbles cakes chairs "
    "sweets flowers".split()
)
_WHO = "[I|We|She|He|Tom|My friend|Anna]"
_MORE = (
    "I [have|had|own|see] {a} {fruit} and [get|buy|find|got] {b} more. How many [{fruit} |]do I "
    "have[ now|]?",
    "There are {a} {fruit} [here|on the table]. I add {b}. How many are there?",
    _WHO + " [bought|found|had] {a} {fruit}, then {b} more. How many [is that|in all|altogether]?",
    "{a} {fruit} and {b} {fruit}[: how many| make how many| are how many] [{fruit}|together]?",
)
_FEWER = (
    "I [have|had] {a} {fruit} and [give away|lose|eat|sell|lost|sold] {b}. How many [{fruit} |]"
    "[are left|remain]?",
    "There are {a} {fruit}. I take {b} away. How many [are left|remain]?",
    _WHO + " had {a} {fruit} [and|but] [lost|ate|gave away|dropped] {b}[.|,] [how|How] many are "
    "[left|there now|still there]?",
    "{a} {fruit}, {b} [are gone|get lost|are eaten]. How many [are left|remain]?",
)
_COUNT_TO = ("[Can you count|Count|Please count] [from {low} |]to {high}[, please|].",)
_COUNT_FROM = ("[Can you count|Count|Please count] from {low} to {high}[, please|].",)
_BIGGER = ("[Which is|What is|Which number is] [bigger|larger|greater], {a} or {b}?",)
_SMALLER = ("[Which is|What is|Which number is] smaller, {a} or {b}?",)
_NEXT = ("[What|Which] number [comes|is] after {a}?", "What comes [next|] after {a}?")
_BEFORE = ("[What|Which] number [comes|is] before {a}?",)


def sums(rng: Random, known: Known) -> list[Turn]:
    """Ask a few sums in a row, some of which go on from the result before."""
    del known
    turns: list[Turn] = []
    for _ in range(rng.randint(1, 4)):
        asked, result = _one_sum(rng)
        turns += asked
        if rng.random() < 0.2:
            turns += _go_on(rng, result)
    return turns


def _go_on(rng: Random, before: int) -> list[Turn]:
    plus = rng.random() < 0.6 if 0 < before < 20 else before == 0
    other = rng.randint(1, 20 - before if plus else before)
    result = before + other if plus else before - other
    slots = {"a": str(before), "b": str(other), "c": str(result), "sign": "+" if plus else "-"}
    answers = ("{a} {sign} {b} = {c}.",)
    return exchange(rng, _THEN_ADD if plus else _THEN_SUBTRACT, answers, **slots)


def numbers(rng: Random, known: Known) -> list[Turn]:
    """Count, compare, or step to a neighbour."""
    del known
    kind = rng.choice((0, 0, 1, 2, 3, 4))
    low, high = sorted(rng.sample(range(21), 2))
    first, second = rng.sample((str(low), str(high)), 2)
    if kind == 0:
        from_one = rng.random() < 0.6
        start = 1 if from_one else low
        end = max(high, start + 1)
        listed = ", ".join(str(number) for number in range(start, end + 1))
        question = _COUNT_TO if from_one else _COUNT_FROM
        return exchange(rng, question, ("{all}.",), low=str(start), high=str(end), all=listed)
    if kind == 1:
        return exchange(
            rng,
            _BIGGER,
            ("{c} is bigger[ than {d}|].",),
            a=first,
            b=second,
            c=str(high),
            d=str(low),
        )
    if kind == 2:
        return exchange(
            rng,
            _SMALLER,
            ("{c} is smaller[ than {d}|].",),
            a=first,
            b=second,
            c=str(low),
            d=str(high),
        )
    if kind == 3:
        return exchange(rng, _NEXT, ("{c} comes after {a}.",), a=str(low), c=str(low + 1))
    return exchange(rng, _BEFORE, ("{c} comes before {a}.",), a=str(high), c=str(high - 1))


def _one_sum(rng: Random) -> tuple[list[Turn], int]:
    plus = rng.random() < 0.55
    # Every pair is equally likely: with the total drawn first, large sums would be rare.
    part, total = sorted((rng.randint(0, 20), rng.randint(0, 21)))
    total -= total == 21
    part = min(part, total)
    a, b, result = (part, total - part, total) if plus else (total, part, total - part)
    slots = {"a": str(a), "b": str(b), "c": str(result), "sign": "+" if plus else "-"}
    if rng.random() < 0.15 and min(a, b, result) > 1:
        slots |= {"fruit": rng.choice(_FRUIT)}
        answer = "{a} {sign} {b} = {c}, so [the answer is {c}|there are {c} {fruit}]."
        return exchange(rng, _MORE if plus else _FEWER, (answer,), **slots), result
    if rng.random() < 0.1:
        word = "plus" if plus else "minus"
        slots |= {"x": _NUMBER_WORDS[a], "y": _NUMBER_WORDS[b], "z": _NUMBER_WORDS[result]}
        question = ("[What is|What's|Tell me|And|] {x} " + word + " {y}[?|]",)
        return exchange(rng, question, ("{x} " + word + " {y} is {z}.",), **slots), result
    answers = ("{a} {sign} {b} = {c}.", "{a} {sign} {b} = {c}[.|, so the answer is {c}.]")
    return exchange(rng, _ADD if plus else _SUBTRACT, answers, **slots), result
