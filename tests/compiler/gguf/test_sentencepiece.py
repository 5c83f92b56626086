"""A SentencePiece vocabulary with scores gives the ids that llama.cpp gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from edgewise_compiler.gguf.tokenizer import tokenizer_files
from edgewise_compiler.gguf.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from edgewise_runtime.text import Tokenizer as Runtime
from tests.compiler.gguf.make_goldens import GOLDENS, metadata, texts
from tests.runtime.text.hashing import WIDTH, packed

GOLDEN = json.loads(GOLDENS.read_text("utf-8"))
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FIRST = ["<unk>", "<s>", "</s>", *BYTES]


def files(pairs: dict[str, Any]) -> dict[str, Any]:
    named = {f"tokenizer.ggml.{key}": value for key, value in pairs.items() if value is not ...}
    return tokenizer_files(named, Path("model.gguf"))


def tiny(*tokens: str, scores: list[float] | None = None, **changes: Any) -> dict[str, Any]:
    """A vocabulary of all bytes and of ``tokens``, each worth less than the one before."""
    own = scores or [-float(i) for i in range(len(tokens))]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(tokens)]
    return {
        "model": "llama",
        "tokens": [*FIRST, *tokens],
        "scores": np.array([0.0] * len(FIRST) + own, np.float32),
        "token_type": np.array(types, np.int32),
    } | changes


def backend(pairs: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(files(pairs)["tokenizer.json"]))


@pytest.mark.parametrize("prefix", [True, False])
def test_ids_are_those_of_llama_cpp(prefix: bool) -> None:
    ours, golden = backend(metadata(GOLDEN, prefix)), GOLDEN["ids"][str(prefix)]
    expected = [golden[at : at + WIDTH] for at in range(0, len(golden), WIDTH)]
    pairs = zip(texts(), expected, strict=True)
    assert [text for text, ids in pairs if packed(ours.encode(text).ids) != ids] == []


@pytest.mark.parametrize("prefix", [True, False])
def test_ids_become_the_text_again(prefix: bool, tmp_path: Path) -> None:
    for name, content in files(metadata(GOLDEN, prefix)).items():
        (tmp_path / name).write_text(json.dumps(content))
    ours = Runtime.from_folder(tmp_path)
    for text in ("words, two of them", " a  b\n\tc", "漢字 🙂 é", "x<|user|> y", ""):
        ids = ours.encode(text)
        assert ids[0] == 1
        pieces = ours.stream(skip_special_tokens=False)
        said = "".join(pieces.push([token]) for token in ids[1:]) + pieces.finish()
        # After a special token a space is put first, too, and only the first one is taken away.
        assert said == (text.replace("> y", ">  y") if prefix else text)


def test_the_highest_score_is_joined_first_and_of_equal_runs_the_leftmost() -> None:
    spaces = ["\u2581" * count for count in (2, 3, 4)]
    letters = ["\u2581", "a", "b", "c"]
    scores = [-9.0, -10, -11, -12, -1.0, -2.0, -5.0, -5.0, -5.0]
    ours = backend(tiny(*letters, "bc", "ab", *spaces, scores=scores, add_space_prefix=False))
    assert ours.encode("abc").tokens == ["<s>", "a", "bc"]
    assert ours.encode("       ").tokens == ["<s>", spaces[2], spaces[1]]


def test_what_is_no_token_is_spelled_in_bytes() -> None:
    ours = backend(tiny("\u2581", "a"))
    assert ours.encode("aé").tokens == ["<s>", "\u2581", "a", "<0xC3>", "<0xA9>"]
    assert ours.decode(ours.encode("aé").ids) == "aé"


def test_a_file_that_names_no_special_tokens_has_the_usual_ones() -> None:
    made = files(tiny("a"))
    assert made["generation_config.json"] == {"bos_token_id": 1, "eos_token_id": [2]}
    assert made["tokenizer_config.json"]["unk_token"] == "<unk>"
    assert backend(tiny("a", add_bos_token=False, add_space_prefix=False)).encode("a").ids == [259]


def test_user_defined_tokens_are_found_before_anything_is_joined() -> None:
    pairs = tiny("\u2581", "a", "b", "a b")
    pairs["token_type"][-1] = USER_DEFINED
    assert backend(pairs).encode("aa b").tokens == ["<s>", "\u2581", "a", "a b"]


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("phi3", ["<|user|>  ", "\u2581", "a", "<s>", "\u2581", "\u2581", "a"]),
        ("llama", ["<|user|>", "\u2581", "\u2581", "\u2581", "a", "<s>", "\u2581", "\u2581", "a"]),
    ],
)
def test_special_tokens_of_phi3_take_the_spaces_after_them(
    architecture: str, expected: list[str]
) -> None:
    pairs = tiny("\u2581", "a", "<|user|>", add_bos_token=False)
    pairs["token_type"][-1] = CONTROL
    named = {f"tokenizer.ggml.{key}": value for key, value in pairs.items()}
    made = tokenizer_files(named | {"general.architecture": architecture}, Path("model.gguf"))
    ours = Tokenizer.from_str(json.dumps(made["tokenizer.json"]))
    assert ours.encode("<|user|>  a<s> a").tokens == expected


def test_gemma_has_its_own_first_tokens_and_runs_of_spaces() -> None:
    """No space is put first; runs are tokens of users, spelled with spaces as converters do."""
    pairs = tiny("\u2581", "a", "  ", "\n\n", "<end_of_turn>", add_space_prefix=False)
    pairs["tokens"][:3] = ["<pad>", "<eos>", "<bos>"]
    pairs["token_type"][:3] = CONTROL
    pairs["token_type"][-3:] = USER_DEFINED
    pairs |= {"bos_token_id": 2, "eos_token_id": 1, "padding_token_id": 0, "unknown_token_id": ...}
    made, ours = files(pairs), backend(pairs)
    assert ours.encode("a  a\n\na").tokens == ["<bos>", "a", "  ", "a", "\n\n", "a"]
    assert made["generation_config.json"]["eos_token_id"] == [1, len(pairs["tokens"]) - 1]


@pytest.mark.parametrize(
    ("pairs", "kind", "said"),
    [
        (tiny("a", "b", "ab", "ba", scores=[-1, -2, -3, -3]), UnsupportedError, "of one score, -3"),
        (tiny("a", "ab"), UnsupportedError, "has 'ab', but no token 'b'"),
        (tiny("a", token_type=...), UnsupportedError, "no token for the byte <0x00>"),
        (tiny("a") | {"scores": ...}, CheckpointError, "does not give 260 tokens a score"),
        (tiny("a", scores=[float("nan")]), CheckpointError, "gives 'a' nan"),
        (tiny("a", "a" * 300), CheckpointError, "one of 300 characters"),
        (tiny("a", add_space_prefix=1), CheckpointError, "add_space_prefix"),
        (tiny("a", model="t5"), UnsupportedError, "'t5'"),
    ],
)
def test_what_is_not_understood_is_refused(
    pairs: dict[str, Any], kind: type[EdgewiseError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        files(pairs)
    assert said in caught.value.message
    assert caught.value.remedy
