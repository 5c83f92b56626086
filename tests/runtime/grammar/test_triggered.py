"""Free text may be anything up to a trigger, after which a text of the grammar is needed."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import After
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.triggered import Triggered
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar.beginnings import Beginning
from tests.runtime.grammar.test_matcher import tokens_of

GRAMMAR = lower_grammar('root ::= c (">" c)?\nc ::= "b"* ">" | ("a" | "<")? ">"')
TRIGGERS = (b"<a", b"<<b")
LETTERS = (b"<", b"a", b"b", b">")
TOKENS = (*(b"".join(word) for n in (1, 2, 3) for word in product(LETTERS, repeat=n)), None, b"")
"""All texts of up to three letters, a token that controls, and one that pads."""
CONTROL = TOKENS.index(None)
VOCABULARY = Vocabulary(TOKENS)
AFTERS: tuple[After, ...] = ("free", "end")
MATCHERS = {
    after: Triggered(Matcher(GRAMMAR, VOCABULARY), TRIGGERS, after, VOCABULARY) for after in AFTERS
}
afters = pytest.mark.parametrize("after", AFTERS)


class Found(NamedTuple):
    """Whether a text may go on, may be free text for that, and may end."""

    begins: bool
    free: bool
    ends: bool


@lru_cache(maxsize=1 << 16)
def beginning(text: bytes) -> Beginning:
    return beginning(text[:-1]).after(text[-1:]) if text else Beginning(GRAMMAR)


@lru_cache(maxsize=1 << 16)
def divided(text: bytes, after: After) -> Found:
    """Every way to divide a text."""
    starts = [text.index(trigger) + len(trigger) for trigger in TRIGGERS if trigger in text]
    found = [Found(*3 * (not starts,))]
    if starts:
        rest = text[min(starts) :]
        at = beginning(rest)
        found.append(Found(at.possible, False, at.whole))
        for end in range(1, len(rest) + 1 if after == "free" else 0):
            if beginning(rest[:end]).whole:
                found.append(divided(rest[end:], after))
    return Found(*map(any, zip(*found, strict=True)))


@afters
@given(st.integers(0, 1 << 30))
def test_masks_are_those_of_every_way_to_divide_the_text(after: After, seed: int) -> None:
    random, matcher = Random(seed), MATCHERS[after]
    state, text = matcher.start, b""
    for _ in range(6):
        now = divided(text, after)
        allowed = tokens_of(matcher.mask(state))
        assert allowed == [
            token
            for token, data in enumerate(TOKENS)
            if (divided(text + data, after).begins if data else now.free)
        ]
        assert matcher.may_end(state) == now.ends
        assert matcher.must_end(state) == (not allowed)
        assert matcher.free(state) == (len(allowed) == len(TOKENS))
        if not allowed:
            return
        token = random.choice(allowed)
        led = matcher.advance(state, token)
        assert led is not None
        state, text = led, text + (TOKENS[token] or b"")


@afters
def test_tokens_without_bytes_come_in_free_text_only_and_leave_it_as_it_is(after: After) -> None:
    matcher = MATCHERS[after]
    begun = matcher.advance_bytes(matcher.start, b"ab<")
    assert begun is not None
    assert matcher.advance(begun, CONTROL) == begun
    assert matcher.advance(begun, VOCABULARY.size) is None
    called = matcher.advance_bytes(begun, b"a")
    assert called is not None
    assert matcher.advance(called, CONTROL) is None
    done = matcher.advance_bytes(called, b">")
    assert done is not None
    assert matcher.advance(done, CONTROL) == (done if after == "free" else None)


def test_free_text_needs_no_mask_where_no_token_goes_beyond_a_trigger() -> None:
    vocabulary = Vocabulary([b"<", b"a", b"b", b"\x80", b"\xff", None])
    grammar = lower_grammar('root ::= "b"')
    matcher = Triggered(Matcher(grammar, vocabulary), [b"<a"], "end", vocabulary)
    assert matcher.free(matcher.start)
    begun = matcher.advance_bytes(matcher.start, b"\xff\x80<")
    assert begun is not None
    assert matcher.free(begun)
    called = matcher.advance(begun, 1)
    assert called is not None
    assert not matcher.free(called)
    assert matcher.forced(called, 9) == b"b"
    assert not Matcher(grammar, vocabulary).free(0)


@pytest.mark.parametrize(
    "triggers",
    [[], [b"<a", b""], [b"<a" * 600]],
    ids=["none", "an empty one", "long ones"],
)
def test_triggers_are_refused(triggers: list[bytes]) -> None:
    with pytest.raises(InputError) as caught:
        Triggered(Matcher(GRAMMAR, VOCABULARY), triggers, "free", VOCABULARY)
    assert caught.value.code == "constraint.triggers"
