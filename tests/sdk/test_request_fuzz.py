"""Any JSON where a tool, a format or a call is expected gives a value, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgewise.docstrings import choices, read_docstring
from edgewise.reasoning import reasoning_of
from edgewise.response_format import response_format_of
from edgewise.tool_choice import tool_choice_of
from edgewise.tools import tools_of
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.text.tool_calls import CallForm, with_calls

WORDS = st.sampled_from(
    "type function name parameters arguments json_schema schema object json_object regex pattern "
    "tool_calls id enabled effort low {}".split()
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4)
)
READERS: tuple[Callable[[Any], Any], ...] = (
    tools_of,
    lambda value: tool_choice_of(value, ()),
    response_format_of,
    reasoning_of,
    lambda value: with_calls([{"tool_calls": value}], CallForm()),
    lambda value: with_calls([{"tool_calls": value}], CallForm(text=True)),
)


@given(JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for read in READERS:
        with suppress(EdgewiseError):
            read(value)


@given(st.text(alphabet="Args:Retun \n\tx(y)[]\"'choices", max_size=200))
def test_any_docstring_is_read(text: str) -> None:
    said = read_docstring(text)
    for name, words in said.arguments.items():
        assert name.isidentifier() or name.isalnum()
        with suppress(ValueError):
            choices(words)
