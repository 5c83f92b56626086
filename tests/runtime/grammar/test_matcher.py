"""Masks allow the tokens that a grammar allows, and no others."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.masks import Mask
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
)
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar.beginnings import Beginning, TooManyError
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.grammars import GBNF

LETTERS = 'ab"\\[]{}\n-^é日😀/0'
NAMES = ("root", "a", "b")
SETS = (((97, 99),), ((45, 45), (93, 94)), ((34, 34), (128512, 128515)), ((0x7F, 0x10FFFF),))
COUNTS = ((0, 1), (0, None), (1, None), (2, 2), (1, 3), (3, 50), (0, 40), (60, None), (0, 0))


def random_node(random: Random, depth: int) -> Node:
    kind = random.randrange(4 if depth == 0 else 10)
    if kind == 0:
        return Literal("".join(random.choices(LETTERS, k=random.randint(1, 3))))
    if kind == 1:
        return Rule(random.choice(NAMES))
    if kind == 2:
        return Chars(random.choice(SETS))
    if kind == 3:
        return Sequence(())
    inner = tuple(random_node(random, depth - 1) for _ in range(random.randint(1, 3)))
    if kind < 6:
        return Repeat(inner[0], *random.choice(COUNTS))
    return Sequence(inner) if kind < 8 else Choice(inner)


def random_grammar(random: Random) -> tuple[Grammar, Vocabulary]:
    """A grammar whose rules end and do not begin with themselves, and tokens."""
    tokens = tuple(random_token(random) for _ in range(random.randint(30, 80)))
    while True:
        grammar = Grammar({name: random_node(random, 3) for name in NAMES}, "root")
        try:
            Matcher(grammar, Vocabulary(()))
        except InputError:
            continue
        return grammar, Vocabulary(tokens)


def random_token(random: Random) -> bytes | None:
    """Letters, of which one may be cut on both sides."""
    if random.random() < 0.05:
        return random.choice([None, b""])
    data = "".join(random.choices(LETTERS, k=random.randint(1, 4))).encode()
    first = random.choice([0, 0, 0, 1, 2])
    return data[first : max(first + 1, len(data) - random.choice([0, 0, 0, 1, 2]))]


def tokens_of(mask: Mask) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]


def wanted(vocabulary: Vocabulary, at: Beginning) -> list[int]:
    texts = [vocabulary.bytes_of(token) for token in range(vocabulary.size)]
    return [token for token, data in enumerate(texts) if data and at.after(data).possible]


def check_along(matcher: Matcher, vocabulary: Vocabulary, at: Beginning, random: Random) -> None:
    """Follow tokens at random, and look at each state on the way."""
    state = matcher.start
    for _ in range(12):
        allowed = tokens_of(matcher.mask(state))
        assert allowed == wanted(vocabulary, at)
        assert matcher.may_end(state) == at.whole
        each = {token: matcher.advance(state, token) for token in range(vocabulary.size)}
        assert [token for token, after in each.items() if after is not None] == allowed
        forced = matcher.forced(state, 20)
        assert forced == b"".join(only_bytes(at, 20))
        if not allowed:
            return
        token = random.choice(allowed)
        after = each[token]
        assert after is not None
        state, at = after, at.after(vocabulary.bytes_of(token) or b"")


def only_bytes(at: Beginning, most: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < most and not at.whole:
        possible = [byte for byte in map(bytes, zip(range(256))) if at.after(byte).possible]
        if len(possible) != 1:
            break
        found += possible
        at = at.after(possible[0])
    return found


@given(st.integers(0, 1 << 30))
def test_a_mask_has_the_tokens_that_begin_a_text(seed: int) -> None:
    random = Random(seed)
    grammar, vocabulary = random_grammar(random)
    try:
        check_along(Matcher(grammar, vocabulary), vocabulary, Beginning(grammar), random)
    except TooManyError:
        reject()


@pytest.mark.landing
@pytest.mark.parametrize("what", ["json", "arithmetic", "a list"])
def test_grammars_that_people_write(what: str) -> None:
    grammar, random = lower_grammar(GBNF[what]), Random(7)
    texts = [drawn(grammar, grammar.rules["root"], random) for _ in range(40)]
    pieces = {text[i : i + random.randint(1, 5)] for text in texts for i in range(len(text))}
    vocabulary = Vocabulary([piece.encode() for piece in sorted(pieces)[:400]])
    matcher = Matcher(grammar, vocabulary)
    for _ in range(3):
        check_along(matcher, vocabulary, Beginning(grammar), random)
    for text in texts:
        state = matcher.advance_bytes(matcher.start, text.encode())
        assert state is not None
        assert matcher.may_end(state)


def nested(depth: int) -> str:
    return '{"a": ' * depth + "[" * depth


def test_what_is_nested_deeply_has_the_masks_of_what_is_not() -> None:
    vocabulary = Vocabulary([b"{", b"}", b"]", b"[", b'"', b"1", b"]" * 40, b"a", b", ", b'"a": '])
    matcher = Matcher(lower_grammar(GBNF["json"]), vocabulary)
    state: int | None = matcher.start
    masks = []
    for _ in range(400):
        assert state is not None
        state = matcher.advance_bytes(state, b'{"a": [')
        assert state is not None
        masks.append(matcher.mask(state))
    assert state is not None
    assert len({id(mask) for mask in masks[-100:]}) == 1
    closing = matcher.advance_bytes(state, b"]" + b"}]" * 399)
    assert closing is not None
    end = matcher.advance_bytes(closing, b"}")
    assert end is not None
    assert matcher.may_end(end)
    assert tokens_of(matcher.mask(end)) == []


def test_a_long_counted_text_has_few_masks_and_ends_where_it_has_to() -> None:
    vocabulary = Vocabulary([b"a", b"aaaa", b'"', b'a"', b'aaaaa"'])
    text = Repeat(Chars(((97, 97),)), 1000, 3000)
    quoted = Sequence((Literal('"'), text, Literal('"')))
    matcher = Matcher(Grammar({"root": quoted}, "root"), vocabulary)
    state = matcher.advance_bytes(matcher.start, b'"')
    masks = set()
    for count in range(3001):
        assert state is not None
        mask = matcher.mask(state)
        masks.add(id(mask))
        left = 3000 - count
        expected = [
            *([0] if left >= 1 else []),
            *([1] if left >= 4 else []),
            *([2] if count >= 1000 else []),
            *([3] if count >= 999 and left >= 1 else []),
            *([4] if count >= 995 and left >= 5 else []),
        ]
        assert tokens_of(mask) == expected
        state = matcher.advance_bytes(state, b"a") if left else None
    assert len(masks) < 30


def test_states_stay_what_they_are_whatever_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise_runtime.grammar.states._MAX_KEPT", 1 << 14)
    monkeypatch.setattr("edgewise_runtime.grammar.masks._MAX_KEPT", 1 << 12)
    random = Random(5)
    grammar = lower_grammar(GBNF["json"])
    texts = [drawn(grammar, grammar.rules["root"], random) for _ in range(30)]
    vocabulary = Vocabulary(sorted({text[:3].encode() for text in texts} | {b"}", b"]", b'"'}))
    matcher, seen = Matcher(grammar, vocabulary), []
    for text in texts:
        state: int | None = matcher.start
        for byte in text.encode():
            assert state is not None
            seen.append((state, tokens_of(matcher.mask(state))))
            state = matcher.advance_bytes(state, bytes([byte]))
    for state, allowed in random.sample(seen, min(200, len(seen))):
        assert tokens_of(matcher.mask(state)) == allowed


def test_a_state_that_was_not_used_for_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise_runtime.grammar.matcher._MAX_STATES", 10)
    text = Repeat(Chars(((97, 97),)), 100, 100)
    matcher = Matcher(Grammar({"root": text}, "root"), Vocabulary([b"a"]))
    states = [matcher.start]
    for _ in range(40):
        state = matcher.advance(states[-1], 0)
        assert state is not None
        states.append(state)
        assert matcher.advance(matcher.start, 0) is not None
    with pytest.raises(InputError) as caught:
        matcher.mask(states[3])
    assert caught.value.code == "constraint.state"


def test_threads_share_a_matcher() -> None:
    grammar = lower_grammar(GBNF["json"])
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)])

    def run(matcher: Matcher, seed: int) -> list[list[int]]:
        random, state, masks = Random(seed), matcher.start, []
        for _ in range(60):
            masks.append(tokens_of(matcher.mask(state)))
            after = matcher.advance(state, random.choice(masks[-1])) if masks[-1] else None
            state = matcher.start if after is None else after
        return masks

    shared = Matcher(grammar, vocabulary)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda seed: run(shared, seed), range(16)))
    assert together == [run(Matcher(grammar, vocabulary), seed) for seed in range(16)]


AS = Repeat(Choice((Literal("a"), Literal("aa"))), 0, 100_000)
DEEP: Node = Literal("a")
for _ in range(400):
    DEEP = Sequence((DEEP, Literal("b")))
REFUSED: dict[str, tuple[dict[str, Node], str]] = {
    "begins with itself": ({"root": Sequence((Rule("root"), Literal("a")))}, "input.grammar"),
    "begins with itself after nothing": (
        {"root": Sequence((Repeat(Literal("a"), 0, 1), Rule("root")))},
        "input.grammar",
    ),
    "never ends": ({"root": Sequence((Literal("a"), Rule("root")))}, "input.grammar"),
    "a rule that is not there": ({"root": Rule("x")}, "input.grammar"),
    "a set of nothing": ({"root": Chars(())}, "input.grammar"),
    "a choice of nothing": ({"root": Choice(())}, "input.grammar"),
    "half a character": ({"root": Literal("\ud800")}, "input.grammar"),
    "deep": ({"root": DEEP}, "constraint.too_large"),
    "many parts": ({"root": Sequence((Literal("a"),) * 600_000)}, "constraint.too_large"),
    "many states": ({"root": Literal("a" * (2 << 20))}, "constraint.too_large"),
}


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize(("rules", "code"), REFUSED.values(), ids=REFUSED)
def test_grammars_beyond_bounds_are_refused(rules: dict[str, Node], code: str) -> None:
    with pytest.raises(InputError) as caught:
        Matcher(Grammar(rules, "root"), Vocabulary([b"a"]))
    assert caught.value.code == code


def test_a_text_that_can_be_read_in_too_many_ways_is_refused() -> None:
    ways = Sequence(tuple(Repeat(Choice((Rule("a"), Literal("a"))), 0, 90) for _ in range(60)))
    rules: dict[str, Node] = {
        "root": ways,
        "a": Sequence((Literal("a"), Repeat(Rule("root"), 0, 50))),
    }
    matcher = Matcher(Grammar(rules, "root"), Vocabulary([b"a" * 64]))
    with pytest.raises(InputError) as caught:
        matcher.mask(matcher.start)
    assert caught.value.code == "constraint.ambiguous"


A = Literal("a")
MAYBE = Repeat(A, 0, 1)
ENDLESS: dict[str, dict[str, Node]] = {
    "nothing, without end": {"root": Sequence((Repeat(Repeat(Sequence(()), 0, None), 5, None), A))},
    "what may be nothing, without end": {
        "root": Repeat(Repeat(Repeat(MAYBE, 0, None), 3, None), 2, 100_000)
    },
    "counts of what may be nothing": {"root": Repeat(Sequence((MAYBE,) * 200), 7, 100_000)},
    "counts of counts": {"root": Repeat(Repeat(Repeat(A, 0, 1000), 0, 1000), 1, 1000)},
    "a rule around itself": {
        "root": Choice((Sequence((A, Rule("root"), A)), Sequence((A, Rule("root"))), A))
    },
    "rules of rules": {
        "root": Repeat(Rule("r0"), 1, None),
        **{f"r{i}": Choice((Rule(f"r{i + 1}"), Sequence((A, Rule("r9"))))) for i in range(9)},
        "r9": A,
    },
}


@pytest.mark.parametrize("rules", ENDLESS.values(), ids=ENDLESS)
def test_there_is_an_end_to_all_ways_to_read_a_text(rules: dict[str, Node]) -> None:
    vocabulary = Vocabulary([b"a", b"b", b"a" * 40])
    matcher = Matcher(Grammar(rules, "root"), vocabulary)
    state = matcher.start
    for _ in range(20):
        allowed = tokens_of(matcher.mask(state))
        assert 0 in allowed or matcher.may_end(state)
        assert 1 not in allowed
        led = matcher.advance(state, 0)
        if led is None:
            assert matcher.must_end(state)
            return
        state = led
    assert matcher.may_end(state)


def test_counts_of_one_repetition_are_kept_as_a_range() -> None:
    """Of a text of n letters, n / 2 to n times have been read: one pair, not n / 2."""
    matcher = Matcher(Grammar({"root": AS}, "root"), Vocabulary([b"a", b"b"]))
    state: int | None = matcher.start
    tracemalloc.start()
    for _ in range(6000):
        assert state is not None
        state = matcher.advance(state, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state is not None
    assert tokens_of(matcher.mask(state)) == [0]
    assert peak < 24 << 20


@pytest.mark.parametrize("tokens", [(), (None, b""), (None, b"a", b"a", None)])
def test_tokens_without_bytes_are_never_allowed_and_equal_ones_together(
    tokens: tuple[bytes | None, ...],
) -> None:
    vocabulary = Vocabulary(tokens)
    matcher = Matcher(Grammar({"root": Repeat(Literal("a"), 0, None)}, "root"), vocabulary)
    mask = matcher.mask(matcher.start)
    assert mask.dtype == np.uint32
    assert mask.shape == (-(-len(tokens) // 32),)
    assert tokens_of(mask) == [token for token, data in enumerate(tokens) if data == b"a"]
    assert not mask.flags.writeable
    assert all(matcher.advance(matcher.start, token) is None for token in (-1, len(tokens), 0))


def test_a_grammar_that_is_slow_at_every_token_is_refused_after_some_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those who share a step wait for its masks."""
    monkeypatch.setattr("edgewise_runtime.grammar.states._MAX_WORK", 1 << 14)
    monkeypatch.setattr("edgewise_runtime.grammar.states._MORE_WORK", 1 << 6)
    body = Choice((Literal("a"), Sequence((Literal("a"), Literal("b")))))
    slow = Sequence(tuple(Repeat(body, 0, 90) for _ in range(60)))
    assert letters_taken(Repeat(body, 0, 20_000)) == 2000
    assert 1 < letters_taken(slow) < 200


def letters_taken(node: Node) -> int:
    """How many of 2,000 letters a text may have before its grammar takes too long."""
    matcher = Matcher(Grammar({"root": node}, "root"), Vocabulary([b"a"]))
    state: int | None = matcher.start
    for count in range(2000):
        assert state is not None
        try:
            matcher.mask(state)
            state = matcher.advance(state, 0)
        except InputError as error:
            return count if error.code == "constraint.ambiguous" else -1
    return 2000
