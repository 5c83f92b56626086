"""Which regular expressions of tokenizers surely take time linear in the text."""

from __future__ import annotations

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from edgewise_runtime.format.patterns import read_pattern

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = (
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"
)
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
O200K = (
    rf"{BEFORE}{UPPER}*{LOWER}+{CONTRACTIONS}?|{BEFORE}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"
)
DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}"
)
PUBLISHED = {
    "gpt-2": GPT_2,
    "llama 3": LLAMA_3,
    "qwen 2": LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}"),
    "qwen 3.5": LLAMA_3.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+"),
    "o200k": O200K,
    "tekken": O200K.replace(CONTRACTIONS + "?", ""),
    "deepseek v3": DEEPSEEK_V3,
    "deepseek digits": r"\p{N}{1,3}",
    "deepseek chinese": "[一-龥\u3040-ゟ゠-ヿ]+",
    "gemma 4": r"[^\n]+|[\n]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "falcon": r"[\p{P}\$\+<=>\^~\|`]+",
    "spaces of sentencepiece": " {2,}",
}
ENDLESS = {
    "a repetition of repetitions": r"(?:a+)+$",
    "one of a group that is a repetition": r"(?:a*b?)*c",
    "ways that multiply": r"(?:a|aa)+$",
    "two repetitions, then something that fails": r"a*a*b",
    "a repetition that fails": r"\s+x",
    "one whose rest nothing takes": r"\s*[\r\n]+|x",
    "one whose rest something else takes": r"\s*[\r\n]+|\d+",
    "a lazy one": r"a+?b",
    "repeated counts": r"(?:\d{1,3})+x",
    "a count that is repeated in turn": r"\p{N}{1,3}+",
    "a large count": r"(?:a{60}){60}",
    "what comes after, without end": r"\d{1,3}(?=(?:\d{3})*\b)",
    "what came before": r"(a)\1",
    "what was before": r"(?<=a)b",
    "a call of itself": r"(?<x>a\g<x>?)",
    "an empty class": "[]a]+",
    "what is open": "(a",
    "what is not opened": "a)",
    "many groups in each other": "(" * 3000 + "a" + ")" * 3000,
    "a long one": "a" * 5000,
}


@pytest.mark.parametrize("pattern", PUBLISHED.values(), ids=PUBLISHED)
def test_what_published_tokenizers_look_for_is_known_to_be_linear(pattern: str) -> None:
    assert read_pattern(pattern).linear


@pytest.mark.parametrize("pattern", ENDLESS.values(), ids=ENDLESS)
def test_what_may_take_longer_is_not(pattern: str) -> None:
    assert not read_pattern(pattern).linear


@pytest.mark.parametrize("pattern", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("run", [" ", "\u3000", "\n", "a", "A", "的", "ʰ", "1", "!", " \n", "Aa "])
@pytest.mark.full
def test_a_linear_one_gets_through_a_long_run_of_anything(pattern: str, run: str) -> None:
    cut(pattern, run * (200_000 // len(run)))


@pytest.mark.parametrize("pattern", [GPT_2, LLAMA_3, O200K, DEEPSEEK_V3])
@pytest.mark.parametrize("run", [" ", "A", "的"])
def test_a_linear_one_gets_through_a_long_run(pattern: str, run: str) -> None:
    cut(pattern, run * 100_000)


def cut(pattern: str, text: str) -> None:
    """In time that is quadratic in the text this would take minutes."""
    pieces = Split(Regex(pattern), behavior="isolated").pre_tokenize_str(text + "x")
    assert "".join(piece for piece, _ in pieces) == text + "x"


@pytest.mark.parametrize(
    ("pattern", "longest", "empty"),
    [("ab?", 2, False), ("a*", None, True), ("a{2,3}", 3, False), ("(?!a)", 5, True)],
)
def test_how_much_a_match_takes(pattern: str, longest: int | None, empty: bool) -> None:
    found = read_pattern(pattern)
    assert (found.longest, found.empty) == (longest, empty)
