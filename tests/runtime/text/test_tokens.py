"""Tokens that a config declares, names or lists are those of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.text import Tokenizer

GOLDENS = Path(__file__).parent / "goldens"
STORED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "text" / "added-tokens.json").read_text("utf-8")
)
CASES: list[dict[str, Any]] = STORED["cases"]


def folder_of(case: dict[str, Any], folder: Path) -> Path:
    tokenizer = json.loads((GOLDENS / STORED["base"] / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        if token["content"] in STORED["changed"]:
            token.update(case["flags"])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(case["config"]))
    (folder / "special_tokens_map.json").write_text(json.dumps(case["older"]))
    return folder


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_texts_have_the_ids_transformers_gives_them(case: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder_of(case, tmp_path))
    expected = [STORED["ids"][at] for at in case["ids"]]
    assert [tokenizer.encode(text) for text in STORED["texts"]] == expected


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_the_same_tokens_are_special(case: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder_of(case, tmp_path))
    for content in case["special"]:
        token = tokenizer.id_of(content)
        assert token is not None
        assert tokenizer.decode([token], skip_special_tokens=True) == ""
    if "<|im_end|>" not in case["special"]:
        end = tokenizer.id_of("<|im_end|>")
        assert tokenizer.decode([end or 0], skip_special_tokens=True) == "<|im_end|>"


def test_what_has_been_special_once_is_left_out_of_texts_in_pieces_as_at_once(
    tmp_path: Path,
) -> None:
    config = {"added_tokens_decoder": {"522": {"content": "<|im_end|>"}}}
    tokenizer = Tokenizer.from_folder(
        folder_of({"flags": {}, "config": config, "older": {}}, tmp_path)
    )
    end = tokenizer.id_of("<|im_end|>")
    assert end is not None
    stream = tokenizer.stream()
    assert stream.push([end]) + stream.finish() == ""
    assert tokenizer.decode([end], skip_special_tokens=True) == ""


@pytest.mark.parametrize(
    "config",
    [
        {"bos_token": {"x": 1}},
        {"added_tokens_decoder": {"1": {}}},
        {"added_tokens_decoder": {"1" * 5000: "x"}},
        {"added_tokens_decoder": {"1": "<s>"}},
        {"extra_special_tokens": 3},
        {"extra_special_tokens": "abc"},
        {"extra_special_tokens": [None]},
        {"extra_special_tokens": {"a": 1}},
        {"additional_special_tokens": {"a": "b"}},
    ],
)
def test_what_describes_no_token_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    case = {"flags": {}, "config": config, "older": {}}
    with pytest.raises(CheckpointError, match="cannot be read") as caught:
        Tokenizer.from_folder(folder_of(case, tmp_path))
    assert caught.value.code == "checkpoint.tokenizer"
