"""Token ids are those of transformers, for every kind of tokenizer and every script."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.format.tokenizer import open_tokenizer
from edgewise_runtime.text import Tokenizer
from tests.runtime.text.corpus import TEXTS, fuzzed
from tests.runtime.text.hashing import WIDTH, packed

GOLDENS = Path(__file__).parent / "goldens"
TEXT = "Tokens of a text are the same each time."
KINDS = ["three_digits", "one_digit", "prefix_space", "byte_fallback"]


@cache
def golden(kind: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((GOLDENS / f"{kind}.json").read_text("ascii"))
    return value


@cache
def loaded(kind: str) -> Tokenizer:
    return Tokenizer.from_folder(GOLDENS / kind)


def unpacked(hashes: str, index: int) -> str:
    return hashes[index * WIDTH : (index + 1) * WIDTH]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_a_text_has_the_ids_transformers_gives_it(kind: str, index: int) -> None:
    tokenizer, expected = loaded(kind), golden(kind)
    ids = tokenizer.encode(TEXTS[index])
    plain = tokenizer.encode(TEXTS[index], add_special_tokens=False)
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert ids == expected["ids"][index]
    assert packed(plain) == unpacked(expected["plain"], index)
    assert packed(text.encode()) == unpacked(expected["decoded"], index)


@pytest.mark.parametrize("kind", KINDS)
def test_fuzzed_strings_have_the_ids_transformers_gives_them(kind: str) -> None:
    check_fuzzed(kind, range(500))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_all_fuzzed_strings_have_the_ids_transformers_gives_them(kind: str) -> None:
    check_fuzzed(kind, range(10_000))


def check_fuzzed(kind: str, numbers: range) -> None:
    tokenizer, hashes = loaded(kind), golden(kind)["fuzzed"]
    encode = tokenizer.encode
    assert [i for i in numbers if packed(encode(fuzzed(i))) != unpacked(hashes, i)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_and_named_tokens_are_those_of_transformers(kind: str) -> None:
    assert loaded(kind).vocab_size == golden(kind)["size"]
    known = golden(kind)["special_tokens"]
    ours = loaded(kind).special_tokens
    # transformers also names tokens by its class's defaults; templates get ours.
    assert {name: known.get(name) for name in ours} == ours


def test_tokens_can_be_looked_up_both_ways() -> None:
    tokenizer = loaded("three_digits")
    end = tokenizer.id_of("<|im_end|>")
    assert end is not None
    assert tokenizer.token_of(end) == "<|im_end|>"
    assert tokenizer.id_of("not a token") is None
    assert tokenizer.token_of(1 << 20) is None


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="surrogate") as caught:
        loaded("one_digit").encode(text)
    assert caught.value.code == "input.text"


@pytest.mark.parametrize("token", [-1, 1 << 32, 1.5, "x"])
def test_an_impossible_id_is_refused_by_value(token: Any) -> None:
    with pytest.raises(InputError, match=str(token)):
        loaded("one_digit").decode([0, token])


def test_an_id_nobody_has_decodes_to_nothing() -> None:
    assert loaded("one_digit").decode([1 << 31]) == ""


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no tokenizer.json"),
        ({"tokenizer.json": b"{"}, "is not a tokenizer"),
        ({"tokenizer.json": b"\xff\xfe"}, "not UTF-8"),
        ({"tokenizer.json": b'{"model": {"type": "Unknown"}}'}, "is not a tokenizer"),
        ({"tokenizer_config.json": b"[]"}, "not an object"),
        ({"tokenizer_config.json": b"{"}, "not valid JSON"),
        ({"tokenizer_config.json": b"[" * 100_000}, "not valid JSON"),
        ({"tokenizer_config.json": b'{"bos_token": {"content": 3}}'}, "cannot be read"),
        ({"tokenizer_config.json": b'{"added_tokens_decoder": {"x": "y"}}'}, "cannot be read"),
        ({"tokenizer_config.json": b'{"added_tokens_decoder": [1]}'}, "cannot be read"),
    ],
)
def test_a_broken_folder_is_refused(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    if files and "tokenizer.json" not in files:
        files = files | {"tokenizer.json": (GOLDENS / "one_digit/tokenizer.json").read_bytes()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        Tokenizer.from_folder(tmp_path)


def test_older_checkpoints_name_their_tokens_in_a_map(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(
        (GOLDENS / "prefix_space/tokenizer.json").read_bytes()
    )
    (tmp_path / "special_tokens_map.json").write_text(
        '{"eos_token": {"content": "<|stop|>", "lstrip": true}}'
    )
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.special_tokens == {"eos_token": "<|stop|>"}
    assert tokenizer.id_of("<|stop|>") == tokenizer.vocab_size - 1


@pytest.mark.parametrize("apart", [False, True], ids=["here", "in a process of its own"])
def test_dropout_is_for_training(tmp_path: Path, apart: bool) -> None:
    """With it a text would have other tokens each time."""
    tokenizer = json.loads((GOLDENS / "one_digit/tokenizer.json").read_text())
    if apart:
        steps = tokenizer["pre_tokenizer"]["pretokenizers"]
        steps[0]["pattern"] = {"Regex": r"(?<=\s)\S+|\S+|\s+"}
    expected = written(tmp_path, tokenizer).encode(TEXT)
    tokenizer["model"]["dropout"] = 1.0
    assert written(tmp_path, tokenizer).encode(TEXT) == expected


def test_of_two_declarations_of_a_token_the_first_holds(tmp_path: Path) -> None:
    tokenizer = json.loads((GOLDENS / "one_digit/tokenizer.json").read_text())
    twice = [{"content": "<new>", "lstrip": True}, {"content": "<new>", "lstrip": False}]
    once = written(tmp_path, tokenizer, {"extra_special_tokens": twice[:1]})
    both = written(tmp_path, tokenizer, {"extra_special_tokens": twice})
    assert both.encode("a <new> b") == once.encode("a <new> b")
    assert both.decode(both.encode("a <new> b")) == "a<new> b"


@pytest.mark.parametrize("holder", ["model", None])
def test_what_the_package_does_not_read_is_not_given_to_it(
    holder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = json.loads((GOLDENS / "one_digit/tokenizer.json").read_text())
    (tokenizer[holder] if holder else tokenizer)["more"] = [list(range(1000))] * 500
    given: list[str] = []

    class Watched:
        @staticmethod
        def from_str(json: str) -> Backend:
            given.append(json)
            return Backend.from_str(json)

    monkeypatch.setattr("edgewise_runtime.format.tokenizer.Backend", Watched)
    opened = open_tokenizer(json.dumps(tokenizer).encode(), "tokenizer.json")
    assert opened.backend.encode(TEXT).ids == loaded("one_digit").encode(TEXT)
    assert sum(map(len, given)) < 10_000


def written(folder: Path, tokenizer: Any, config: Any = None) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return Tokenizer.from_folder(folder)
