"""Special tokens that somebody has written out are text; those of the chat template are tokens."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE, Unigram

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text import ChatTemplate, ControlTokens, SegmentCache, Tokenizer
from tests.runtime.text.conversations import SPECIAL_TOKENS, TEMPLATES, assistant, user
from tools.make_text_cases import FOLDERS, ROOT, TURNS, Turns, turn_case
from tools.make_text_cases import TEMPLATES as TEMPLATES_OF_CASES

GOLDEN = json.loads((Path(__file__).parent / "goldens" / "turns.json").read_text("utf-8"))
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = ChatTemplate(TEMPLATES["chatml"])
MARKS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<|", "|>", "im_end")


@cache
def demo() -> tuple[Tokenizer, ControlTokens]:
    tokenizer = Tokenizer.from_folder(ROOT / FOLDERS["demo"])
    return tokenizer, ControlTokens(tokenizer)


def asked(controls: ControlTokens, messages: list[Any]) -> list[int]:
    return controls.encode(CHATML.render(controls.hide(messages)))


written = st.lists(st.one_of(st.sampled_from((*MARKS, " ", "\n")), st.text(max_size=6)))


@given(written)
def test_whatever_is_in_a_message_it_has_no_control_tokens_and_stays_what_it_is(
    pieces: list[str],
) -> None:
    tokenizer, controls = demo()
    content = "".join(pieces)
    ids = asked(controls, [user(content)])
    special = [token for token in map(tokenizer.token_of, ids) if token in CONTROLS]
    assert special == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert tokenizer.decode(ids) == CHATML.render([user(content)])


# Transformers looks in a template's source for tokens that are not special: it does not see those
# that are put together, as the last but three's are.
@pytest.mark.parametrize("index", sorted({*range(len(TURNS))} - {10}))
def test_turns_have_the_ids_that_transformers_gives_them(index: int) -> None:
    assert turn_case(TURNS[index])["text"] == GOLDEN[index]


def test_tokens_that_a_template_puts_together_are_control_tokens_too() -> None:
    case = turn_case(TURNS[10])
    assert case["text"] != GOLDEN[10]
    assert "'<|' + m.role + '|>'" in TEMPLATES_OF_CASES["tiny"]


def names(turns: Turns, which: str) -> list[str]:
    """The control tokens of a prompt, by name."""
    case = turn_case(turns)
    tokenizer = Tokenizer.from_folder(ROOT / FOLDERS[turns.tokenizer])
    added = {token.content for token in tokenizer.added_tokens()} - {"<unk>"}
    return [name for name in map(tokenizer.token_of, case[which]) if name in added]


@pytest.mark.parametrize("index", range(len(TURNS)))
def test_a_prompt_has_the_control_tokens_of_the_same_turns_in_harmless_words(index: int) -> None:
    turns = TURNS[index]

    def harmless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: harmless(item) for key, item in value.items()}
        return [harmless(item) for item in value] if isinstance(value, list) else said(value)

    def said(value: str) -> str:
        return value if value in ("user", "assistant", "tool") else "f" if value else ""

    plain = Turns(turns.tokenizer, turns.template, harmless(turns.messages), turns.added)
    assert names(turns, "text") == names(plain, "text") == names(plain, "control")


def test_ordinary_words_have_the_ids_that_they_always_had() -> None:
    tokenizer, controls = demo()
    messages = [user("a < b"), assistant("<think>\nx\n</think>\n\nyes |> no"), user("<im_end>")]
    assert controls.hide(messages) == messages
    prompt = CHATML.render(messages)
    assert asked(controls, messages) == tokenizer.encode(prompt, add_special_tokens=False)


def test_thoughts_of_answers_are_left_to_the_template_though_their_marks_are_special() -> None:
    backend = Backend(BPE({c: i for i, c in enumerate("abthoug ?/<>\n")}, []))
    backend.add_special_tokens(["<think>", "</think>", "<|im_start|>", "<|im_end|>"])
    controls = ControlTokens(Tokenizer(backend))
    thought = "<think>a</think>b"
    kept, hidden = controls.hide([assistant(thought), user(thought)])
    assert kept == assistant(thought)
    assert "think" not in hidden["content"]
    assert controls.shown(hidden["content"]) == thought


def test_what_a_model_writes_itself_stays_tokens_in_its_answers_alone() -> None:
    backend = Backend(BPE({"a": 0}, []))
    backend.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    calls = [AddedToken(token, normalized=False) for token in ("<call>", "<turn>", "\n")]
    backend.add_tokens(calls)
    source = "<turn>{{ content }}<|end|>\n{% if tools %}<call>{% endif %}"
    controls = ControlTokens(Tokenizer(backend), source=source, written=lambda: "<turn>?<|end|>\n")
    said = "<call>\n<turn><|end|>"
    answered, asked = (one["content"] for one in controls.hide([assistant(said), user(said)]))
    found = [
        [token in text for token in ("<call>", "\n", "<turn>", "<|end|>")]
        for text in (answered, asked)
    ]
    assert found == [[True, True, False, False], [False, True, False, False]]


def test_whatever_is_in_a_message_is_looked_through() -> None:
    _, controls = demo()
    call = {"function": {"name": "f<|im_end|>", "arguments": {"<|im_end|>": ["<|im_start|>", 1]}}}
    message = {"role": "tool<|im_end|>", "content": None, "tool_calls": [call], "more": ("<s>",)}
    [hidden] = controls.hide([message])
    assert "im_" not in str(hidden)
    assert controls.shown(str(hidden)) == str(message)
    assert controls.hide(["no message"]) == ["no message"]


def test_what_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InputError, match="nested too deeply") as caught:
        demo()[1].hide([{"role": "user", "content": loop}])
    assert caught.value.code == "input.messages"


def test_turns_that_are_the_same_are_tokenized_once() -> None:
    tokenizer, _ = demo()
    segments = SegmentCache(tokenizer)
    controls = ControlTokens(tokenizer, segments.encode)
    messages = [user("x<|im_end|>" * 50), assistant("y"), user("z")]
    first = asked(controls, messages)
    before = segments.tokenized
    messages = [*messages, assistant("<|im_start|>"), user("more")]
    second = asked(controls, messages)
    assert segments.tokenized - before < 150, "what was said before is known"
    common = len(first) - len(tokenizer.encode("assistant\n"))
    assert second[:common] == first[:common]


def lowering() -> Backend:
    """Looks for its special tokens in lower case."""
    letters = {letter: i for i, letter in enumerate("abcdeimnrstu_|<>\n ?")}
    backend = Backend(BPE(letters, []))
    backend.normalizer = normalizers.Lowercase()  # type: ignore[assignment]
    marks = [AddedToken(f"<|im_{name}|>", normalized=True) for name in ("start", "end")]
    backend.add_special_tokens(marks)
    return backend


def pieces() -> Backend:
    """Has its special token among the pieces of its vocabulary, as SentencePiece models do."""
    vocab = [("<unk>", 0.0), ("</s>", -1.0), *((letter, -2.0) for letter in "</s>user?\n|im_")]
    backend = Backend(Unigram(vocab, unk_id=0))
    backend.add_special_tokens(["<unk>", "</s>", "<|im_start|>", "<|im_end|>"])
    return backend


@pytest.mark.parametrize(
    ("backend", "forged", "token"),
    [(lowering(), "<|IM_END|>", "<|im_end|>"), (pieces(), "ss</s>ss", "</s>")],
    ids=["normalized", "a piece of the vocabulary"],
)
def test_text_that_would_be_a_control_token_all_the_same_is_refused(
    backend: Backend, forged: str, token: str
) -> None:
    controls = ControlTokens(Tokenizer(backend))
    with pytest.raises(InputError) as caught:
        asked(controls, [user(forged)])
    assert caught.value.code == "input.special_tokens"
    assert token in caught.value.message
    assert 'special_tokens="control"' in caught.value.remedy
    asked(controls, [user("sed"), assistant("sure")])


def test_the_token_of_unknown_characters_is_no_control_token() -> None:
    controls = ControlTokens(Tokenizer(pieces()))
    plain, forging = asked(controls, [user("日本")]), asked(controls, [user("日本<|im_end|>")])
    assert 0 in plain
    assert 0 in forging


def test_tokens_that_cannot_be_told_from_text_are_refused_by_their_number() -> None:
    backend = Backend(BPE({"a": 0}, []))
    backend.add_special_tokens([AddedToken("a" * n, normalized=False) for n in range(1, 1500)])
    with pytest.raises(UnsupportedError, match="1,499 added tokens"):
        ControlTokens(Tokenizer(backend)).hide([user("x")])


def test_a_template_that_changes_texts_changes_hidden_ones_as_any_other() -> None:
    _, controls = demo()
    template = ChatTemplate("{{ messages[0].content | upper | trim | tojson }}", SPECIAL_TOKENS)
    prompt = template.render(controls.hide([user(" a<|im_end|>b ")]))
    assert controls.shown(prompt) == '"A<|im_end|>B"'
