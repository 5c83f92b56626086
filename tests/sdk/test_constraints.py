"""Whatever follows the masks is what was asked for, and thoughts end in time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from edgewise.constraints import MOST_KEPT, Constraints
from edgewise.held import Held, Thoughtful
from edgewise.reading import Reading
from edgewise.response_format import regex, response_format_of
from edgewise.thinking import Thinking, thinking_of
from edgewise.tool_choice import ToolChoice
from edgewise.tools import tools_of
from edgewise.wanted import Wanted
from edgewise_runtime.calls import FORMATS, Content, Format, Reasoning
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text import Tokenizer

GOLDENS = Path(__file__).parents[1] / "runtime/text/goldens"
HERMES, HARMONY, GEMMA4 = (FORMATS[name] for name in ("hermes", "harmony", "gemma4"))
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Zoë", "Ann"]}, "ages": {"type": "array", "maxItems": 2}},
    "required": ["name"],
    "additionalProperties": False,
}
SCHEMA["properties"]["ages"]["items"] = {"type": "integer", "minimum": 0, "maximum": 120}
ASKED = response_format_of({"type": "json_schema", "json_schema": {"schema": SCHEMA}})
assert ASKED is not None
MOST = 400
STRAIGHT = Thinking("<think>", "</think>")


def constraints(kind: str = "one_digit") -> Constraints:
    tokenizer = Tokenizer.from_folder(GOLDENS / kind)
    return Constraints(tokenizer, tokenizer.vocab_size + 3, ends=[0])


def walk(
    held: Held | Thoughtful, random: Random, *, forced: bool = False
) -> tuple[list[int], bool]:
    """Tokens drawn from the masks, and whether the text may end behind them."""
    state, found = held.start, list[int]()
    while len(found) < MOST and not held.must_end(state):
        if held.may_end(state) and random.random() < 0.3:
            break
        given = held.forced_tokens(state) if forced else ()
        if not given:
            bits = np.unpackbits(held.mask(state).view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits)
            assert len(allowed)
            given = (int(random.choice(allowed)),)
        for token in given:
            after = held.advance(state, token)
            assert after is not None
            state = after
            found.append(token)
    return found, held.may_end(state)


def text_of(kind: str, tokens: list[int], shown: tuple[str, ...] = ()) -> str:
    stream = Tokenizer.from_folder(GOLDENS / kind).stream(shown=shown)
    return stream.push(tokens) + stream.finish()


@pytest.mark.parametrize("kind", ["one_digit", "three_digits", "prefix_space", "byte_fallback"])
@pytest.mark.parametrize("forced", [False, True])
def test_what_follows_the_masks_is_of_the_schema(kind: str, forced: bool) -> None:
    held = constraints(kind).of_format(ASKED, STRAIGHT)
    for seed in range(20):
        tokens, ended = walk(held, Random(seed), forced=forced)
        assert ended
        found = json.loads(text_of(kind, tokens))
        assert found["name"] in ("Zoë", "Ann")
        assert all(0 <= age <= 120 for age in found.get("ages", []))
        assert found.keys() <= {"name", "ages"}
        assert ASKED.parse(text_of(kind, tokens)) == found


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        (regex("[a-c]{2,4}x"), "[a-c]{2,4}x"),
        (response_format_of({"type": "grammar", "grammar": 'root ::= "a" root | "b"'}), "a*b"),
        (response_format_of("json"), r"\{.*\}"),
    ],
)
def test_expressions_and_grammars_are_followed(wanted: Any, pattern: str) -> None:
    held = constraints().of_format(wanted, STRAIGHT)
    for seed in range(10):
        tokens, ended = walk(held, Random(seed))
        assert not ended or re.fullmatch(pattern, text_of("one_digit", tokens), re.DOTALL)


def test_what_must_come_is_written_at_once_but_for_its_last_token() -> None:
    held = constraints().of_format(regex("abcdefgh(i|j)"), STRAIGHT)
    given = held.forced_tokens(held.start)
    assert len(given) > 1
    assert "abcdefgh".startswith(text_of("one_digit", list(given)))
    only = constraints().of_format(regex("abcdefgh"), STRAIGHT)
    assert text_of("one_digit", list(only.forced_tokens(only.start))) == "abcdefgh"
    assert held.forced_tokens(constraints().of_format(regex("a|b"), STRAIGHT).start) == given


def told(form: Format, tokens: list[int], thinking: Thinking) -> tuple[str, str]:
    """What is thought and what is said."""
    reader = Reading(form, opened=thinking.opened).reader()
    deltas = [*reader.feed(text_of("one_digit", tokens, thinking.shown)), *reader.end()]
    thought = "".join(one.text for one in deltas if isinstance(one, Reasoning))
    return thought, "".join(one.text for one in deltas if isinstance(one, Content))


@pytest.mark.parametrize("form", [HERMES, HARMONY, GEMMA4], ids=lambda form: form.name)
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("budget", [0, 3, 20])
def test_an_answer_follows_a_thought_that_ends_in_time(
    form: Format, opened: bool, budget: int
) -> None:
    opened = opened and form is not HARMONY
    thinking = thinking_of(form, shown=form.shown, may=True, opened=opened)
    made = constraints()
    held = made.of_format(ASKED, thinking)
    limited = made.watched(held, thinking, budget=budget, apart=False)
    thoughts = 0
    for seed in range(12):
        tokens, ended = walk(limited, Random(seed), forced=seed % 2 == 0)
        thought, said = told(form, tokens, thinking)
        assert ended
        assert json.loads(said)["name"] in ("Zoë", "Ann")
        longest = max(len(token) for token in made._vocabulary(thinking.shown)._tokens if token)
        assert len(thought.encode()) <= (budget + 1) * longest
        thoughts += bool(thought)
    assert thoughts > 0 or budget == 0 or not opened


def test_a_thought_alone_is_cut_short_and_the_answer_is_free() -> None:
    made = constraints()
    thinking = thinking_of(HERMES, shown=HERMES.shown, may=True, opened=True)
    limited = made.watched(None, thinking, budget=2, apart=False)
    state = limited.start
    tokenizer = Tokenizer.from_folder(GOLDENS / "one_digit")
    [letter] = tokenizer.encode("a", add_special_tokens=False)
    for _ in range(2):
        assert limited.free(state)
        state = limited.advance(state, letter) or 0
    closing = limited.forced_tokens(state)
    assert text_of("one_digit", list(closing), thinking.shown) == "\n</think>\n\n"
    assert not limited.free(state)
    assert not limited.may_end(state)
    assert limited.forced(state, 5) == b"\n</th"
    assert limited.advance(state, letter) is None
    for token in closing:
        assert np.flatnonzero(
            np.unpackbits(limited.mask(state).view(np.uint8), bitorder="little")
        ).tolist() == [token]
        state = limited.advance(state, token) or 0
    assert limited.free(state)
    assert limited.may_end(state)
    assert limited.advance(state, letter) is not None


def test_a_thought_that_ends_by_itself_is_left_alone() -> None:
    made = constraints()
    thinking = thinking_of(HERMES, shown=HERMES.shown, may=True, opened=False)
    limited = made.watched(None, thinking, budget=9, apart=False)
    tokenizer = Tokenizer.from_folder(GOLDENS / "one_digit")
    state = limited.start
    for token in tokenizer.encode("\n<think>a</think>" + "b" * 30, add_special_tokens=False):
        assert limited.forced_tokens(state) == ()
        state = limited.advance(state, token) or 0
    assert limited.free(state)


def test_what_was_asked_before_is_kept_and_the_oldest_is_forgotten() -> None:
    made = constraints()
    first = made.of_format(ASKED, STRAIGHT)
    assert made.of_format(ASKED, STRAIGHT) is first
    for count in range(MOST_KEPT):
        made.of_format(regex(f"a{{{count + 1}}}"), STRAIGHT)
    assert made.of_format(ASKED, STRAIGHT) is not first


def test_marks_that_are_tokens_are_forced_as_these() -> None:
    shown = ("<|im_start|>",)
    thinking = Thinking("<think>", "</think>", shown)
    held = constraints().of_format(regex("<\\|im_start\\|>a"), thinking)
    tokenizer = Tokenizer.from_folder(GOLDENS / "one_digit")
    [mark] = tokenizer.encode("<|im_start|>", add_special_tokens=False)
    assert held.forced_tokens(held.start)[0] == mark
    plain = constraints().of_format(regex("<\\|im_start\\|>a"), STRAIGHT)
    assert plain.forced_tokens(plain.start) == ()


def test_what_cannot_be_followed_is_refused_by_name() -> None:
    for wanted, kind, code in (
        (regex("(?=a)b"), UnsupportedError, "unsupported.regex"),
        (regex("("), InputError, "input.regex"),
        (response_format_of({"type": "grammar", "grammar": "?"}), InputError, "input.grammar"),
    ):
        assert wanted is not None
        with pytest.raises(kind) as caught:
            constraints().of_format(wanted, STRAIGHT)
        assert caught.value.code == code


def test_a_thought_may_speak_of_calls_and_what_follows_it_has_to_be_one() -> None:
    made = constraints()
    tools = tools_of([{"name": "now", "parameters": {"type": "object", "properties": {}}}])
    assert tools is not None
    thinking = thinking_of(HERMES, shown=HERMES.shown, may=True, opened=False)
    wanted = Wanted(tools, ToolChoice("auto"))
    held = made.of(wanted, HERMES, thinking)
    assert isinstance(held, Thoughtful)
    tokenizer = Tokenizer.from_folder(GOLDENS / "one_digit")

    def after(text: str) -> int | None:
        state: int | None = held.start
        for token in tokenizer.encode(text, add_special_tokens=False):
            state = None if state is None else held.advance(state, token)
        return state

    thought = "<think>I say <tool_call>no.</think>\n\n"
    assert after(thought) is not None
    assert after(f"{thought}So <tool_call>no") is None
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    ended = after(f"{thought}So {call} and on")
    assert ended is not None
    assert held.may_end(ended)
    assert after("<tool_call>no") is None
