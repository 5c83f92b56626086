"""The text the demo model is trained on."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from tools.demo_corpus import Dialogue, Turn, generate
from tools.demo_corpus.edgewise import ENTRIES
from tools.demo_corpus.grammar import expand, pick, sentence_case, typed_by_hand

SAMPLE = [generate(3, index) for index in range(1500)]
TURNS = [turn for dialogue in SAMPLE for turn in dialogue.turns]


def _answers(pattern: str) -> list[tuple[re.Match[str], str]]:
    """Return each user turn that matches in full, with the answer it got."""
    return [
        (found, answer.text)
        for dialogue in SAMPLE
        for question, answer in zip(dialogue.turns, dialogue.turns[1:], strict=False)
        if question.role == "user" and (found := re.fullmatch(pattern, question.text))
    ]


def test_a_seed_and_a_number_give_one_dialogue() -> None:
    assert generate(3, 40) == SAMPLE[40]
    assert generate(4, 40) != SAMPLE[40]
    assert generate(3, 41) != SAMPLE[40]


def test_nearly_all_dialogues_differ() -> None:
    assert len({dialogue.render() for dialogue in SAMPLE}) > 0.95 * len(SAMPLE)


def test_turns_alternate_and_the_assistant_has_the_last_word() -> None:
    for dialogue in SAMPLE:
        roles = [turn.role for turn in dialogue.turns]
        if roles[0] == "system":
            roles = roles[1:]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert roles


@pytest.mark.parametrize("leftover", ["{", "}", "[", "]", "|", "a(n)", "  ", "<", "None"])
def test_no_turn_shows_the_template_behind_it(leftover: str) -> None:
    assert [turn for turn in TURNS if leftover in turn.text] == []


def test_no_turn_is_empty_or_padded() -> None:
    assert all(turn.text and turn.text == turn.text.strip() for turn in TURNS)


def test_text_is_plain_ascii() -> None:
    assert all(turn.text.isascii() for turn in TURNS)


def test_the_vocabulary_is_broad_and_still_small() -> None:
    words = Counter(word for turn in TURNS for word in re.findall(r"[a-z]+", turn.text.lower()))
    assert 1000 < sum(count > 4 for count in words.values()) < 4096


def test_many_words_are_made_up_so_that_they_have_to_be_copied() -> None:
    asked = Counter(
        word
        for turn in TURNS
        if turn.role == "user"
        for word in re.findall(r"[A-Za-z]+", turn.text)
    )
    said = {word for turn in TURNS if turn.role == "assistant" for word in turn.text.split()}
    rare = {word for word, count in asked.items() if count == 1}
    assert len(rare) > 500
    assert len({word for word in rare if word + "." in said}) > 100


def test_all_topics_come_up() -> None:
    said = " ".join(turn.text for turn in TURNS)
    for word in ("edgewise", "capital", "story", "bigger", "Goodbye", "sorry", "favourite"):
        assert word in said


def test_sums_are_right() -> None:
    sums = _answers(
        r"(?:(?:What is|How much is|And|Now|Solve|Compute|Work out) )?(\d+) ?([+-]) ?(\d+)\??"
    )
    right = [(found, text) for found, text in sums if max(int(found[1]), int(found[3])) <= 20]
    assert len(right) > 20
    for found, text in right:
        left, sign, other = int(found[1]), found[2], int(found[3])
        result = left + other if sign == "+" else left - other
        assert text.startswith(f"{left} {sign} {other} = {result}"), text
        assert 0 <= result <= 20


def test_a_name_is_given_back_only_when_it_was_given() -> None:
    known = unknown = 0
    for dialogue in SAMPLE:
        before = ""
        for question, answer in zip(dialogue.turns, dialogue.turns[1:], strict=False):
            before += question.text.lower() + "\n"
            asked = re.search(r"(is|'s|remember|me|know) my name\b", question.text.lower())
            if question.role != "user" or not asked:
                continue
            named = re.search(r"(?:name is|[Yy]ou are) (\w+)\.", answer.text)
            if named:
                known += 1
                assert named[1].lower() in before
            else:
                unknown += 1
                assert "your name" in answer.text
    assert known > 5
    assert unknown > 5


def test_more_blocks_make_longer_dialogues() -> None:
    short = sum(len(generate(3, index, blocks=(1, 2)).turns) for index in range(50))
    long = sum(len(generate(3, index, blocks=(8, 14)).turns) for index in range(50))
    assert long > 3 * short


def test_edgewise_questions_have_answers() -> None:
    assert len(ENTRIES) > 25
    assert all(entry.questions and entry.answers for entry in ENTRIES)


def test_a_dialogue_renders_as_chatml() -> None:
    dialogue = Dialogue((Turn("user", "Hi"), Turn("assistant", "Hello!")))
    assert dialogue.render() == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
    )


def test_templates_pick_nest_and_fill() -> None:
    texts = {expand(Random(seed), "[a|b [c|d]|] {x}", x="[raw]") for seed in range(60)}
    assert texts == {"a [raw]", "b c [raw]", "b d [raw]", "[raw]"}


@pytest.mark.parametrize(("noun", "article"), [("owl", "an"), ("Fox", "a"), ("apple", "an")])
def test_articles_suit_their_noun(noun: str, article: str) -> None:
    assert expand(Random(0), "a(n) {noun}", noun=noun) == f"{article} {noun}"


def test_sentences_start_with_capitals_but_edgewise_does_not() -> None:
    assert sentence_case("yes. so it is! q4 is small. edgewise runs.") == (
        "Yes. So it is! q4 is small. edgewise runs."
    )
    assert pick(Random(0), ("an owl.",)) == "An owl."


def test_typing_noise_never_touches_what_has_to_be_read() -> None:
    texts = {typed_by_hand(Random(seed), "My cat is Zimbolt.", ["Zimbolt"]) for seed in range(400)}
    assert all("Zimbolt" in text for text in texts)
    assert len(texts) > 20
    assert {"My cat is Zimbolt.", "my cat is Zimbolt"} < texts
    assert all("edgewise" in typed_by_hand(Random(seed), "Is edgewise?") for seed in range(400))
