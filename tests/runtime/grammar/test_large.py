"""A vocabulary as large as models have: the same masks, made from thousands of tokens at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.triggered import Triggered
from tests.runtime.grammar.beginnings import Beginning
from tests.runtime.grammar.large_schema import large_vocabulary, schema_grammar, schema_text
from tests.runtime.grammar.test_matcher import tokens_of

STATES = 12
TOKENS = 400


@pytest.mark.landing
def test_masks_of_a_schema_are_those_of_an_oracle() -> None:
    vocabulary, grammar, random = large_vocabulary(), schema_grammar(), Random(2)
    matcher = Matcher(grammar, vocabulary)
    text = schema_text().encode()
    ends = sorted(random.sample(range(len(text) + 1), STATES))
    state, at, before = matcher.start, Beginning(grammar), 0
    for end in ends:
        led = matcher.advance_bytes(state, text[before:end])
        assert led is not None
        state, at, before = led, at.after(text[before:end]), end
        allowed = set(tokens_of(matcher.mask(state)))
        some = random.sample(sorted(allowed), min(TOKENS, len(allowed)))
        for token in {*some, *random.sample(range(vocabulary.size), TOKENS)}:
            data = vocabulary.bytes_of(token)
            assert (token in allowed) == (data is not None and at.after(data).possible)


def test_every_token_of_a_mask_can_be_taken_and_no_other() -> None:
    vocabulary = large_vocabulary()
    matcher = Matcher(schema_grammar(), vocabulary)
    state = matcher.advance_bytes(matcher.start, schema_text()[:60].encode())
    assert state is not None
    taken = [token for token in range(vocabulary.size) if matcher.advance(state, token) is not None]
    assert taken == tokens_of(matcher.mask(state))


def test_free_text_has_all_tokens_but_those_that_go_beyond_a_trigger() -> None:
    vocabulary, grammar = large_vocabulary(), schema_grammar()
    matcher = Triggered(Matcher(grammar, vocabulary), [b"{#", b"####"], "end", vocabulary)
    allowed = np.zeros(vocabulary.size, bool)
    allowed[tokens_of(matcher.mask(matcher.start))] = True
    for token in np.flatnonzero(~allowed).tolist():
        data = vocabulary.bytes_of(token)
        assert data is not None
        assert b"{#" in data or b"####" in data
    assert 0 < np.count_nonzero(~allowed) < 1000
