"""Any text up to a mark is one that ends with it, and has it nowhere before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import Grammar, Node
from edgewise_runtime.grammar.until import until
from edgewise_runtime.grammar.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([byte]) for byte in range(256)])
MARKS = ["</think>", "<|end|>", "aab", "aaa", "abab", "é", "x"]


def matcher(mark: str) -> Matcher:
    rules: dict[str, Node] = {}
    rules["root"] = until(mark, rules, "text:")
    return Matcher(Grammar(rules, "root"), BYTES)


@pytest.mark.parametrize("mark", MARKS)
@given(data=st.data())
def test_a_text_ends_where_the_mark_first_does(mark: str, data: st.DataObject) -> None:
    made = matcher(mark)
    parts = st.sampled_from([mark, mark[:-1], mark[:1], mark[-1:], "a", "b", "ü", "\n"])
    text = "".join(data.draw(st.lists(parts, max_size=8)))
    found = text.find(mark)
    whole = text if found < 0 else text[: found + len(mark)]
    state = made.advance_bytes(made.start, whole.encode())
    assert state is not None
    assert made.may_end(state) == made.must_end(state) == (found >= 0)
    if found >= 0:
        assert made.advance_bytes(state, b"a") is None
