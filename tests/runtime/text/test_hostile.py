"""Damaged tokenizers and templates end in our errors, or work: nothing else is raised."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from edgewise_runtime.text import ChatTemplate, SegmentCache, Tokenizer
from tests.runtime.text.conversations import CONVERSATIONS, SPECIAL_TOKENS, TEMPLATES

GOLDENS = Path(__file__).parent / "goldens"
KINDS = ["three_digits", "one_digit", "prefix_space", "byte_fallback"]
VALUES: tuple[Any, ...] = (None, -1, 1e300, "", "x", [], [1, 2], {}, True, 10**12)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in parsed JSON, without the entries of the vocabulary."""
    if path:
        yield path
    if path and path[-1] in ("vocab", "merges"):
        return
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))


def use(tokenizer_json: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_text(json.dumps(tokenizer_json))
        tokenizer = Tokenizer.from_folder(Path(folder))
    text = "Hello wörld <s> 日本<|im_end|> "
    ids = tokenizer.encode(text)
    tokenizer.decode(ids)
    plain = tokenizer.encode(text, add_special_tokens=False)
    assert SegmentCache(tokenizer).encode(text) == plain
    stream = tokenizer.stream()
    stream.push(ids)
    stream.finish()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_tokenizer_with_one_value_changed(kind: str, data: st.DataObject) -> None:
    tokenizer = json.loads((GOLDENS / kind / "tokenizer.json").read_text())
    *path, last = data.draw(st.sampled_from(list(places(tokenizer))))
    inner = tokenizer
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(st.sampled_from(VALUES))
    with suppress(EdgewiseError):
        use(tokenizer)


def test_a_tokenizer_that_would_end_the_process_is_refused() -> None:
    tokenizer = json.loads((GOLDENS / "one_digit/tokenizer.json").read_text())
    tokenizer["model"]["continuing_subword_prefix"] = "##"
    with pytest.raises(CheckpointError, match="does not go on with '##'"):
        use(tokenizer)


@pytest.mark.parametrize("nested", [False, True])
def test_a_tokenizer_that_would_take_memory_without_end_is_refused(nested: bool) -> None:
    tokenizer = json.loads((GOLDENS / "one_digit/tokenizer.json").read_text())
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    steps = {"type": "Sequence", "normalizers": [tokenizer["normalizer"], strip]}
    tokenizer["normalizer"] = steps if nested else strip
    with pytest.raises(UnsupportedError, match="strips") as caught:
        use(tokenizer)
    assert caught.value.code == "unsupported.tokenizer"
    strip["strip_right"] = False
    use(tokenizer)


def test_a_tokenizer_that_fails_on_a_text_says_so() -> None:
    tokenizer = Tokenizer(Backend(WordLevel({"known": 0}, unk_token="missing")))
    assert tokenizer.encode("known") == [0]
    with pytest.raises(CheckpointError, match="fails on 'other'") as caught:
        tokenizer.encode("other")
    assert caught.value.code == "checkpoint.tokenizer"


@pytest.mark.parametrize("name", TEMPLATES)
@given(data=st.data())
def test_a_template_with_a_part_cut_out_or_moved(name: str, data: st.DataObject) -> None:
    source = TEMPLATES[name]
    a, b, c = sorted(data.draw(st.integers(0, len(source))) for _ in range(3))
    moved = data.draw(st.booleans())
    changed = source[:a] + source[b:c] + (source[a:b] if moved else "") + source[c:]
    chat = data.draw(st.sampled_from(CONVERSATIONS))
    with suppress(EdgewiseError):
        text = ChatTemplate(changed, SPECIAL_TOKENS).render(chat.messages, tools=chat.tools)
        assert isinstance(text, str)
