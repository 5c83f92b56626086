"""What a GGUF file says of vectors: how they are pooled, and whether its model ranks texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.compiler.gguf.test_source import set_key
from tests.compiler.gguf.writing import write_gguf
from tests.parity import reference
from tests.sdk.trained_for_texts import CASE, ranker

ASKED = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
"""What llama.cpp's converter writes for Qwen3-Reranker."""


def said(path: Path) -> Any:
    """vectors.json of the bundle that a file would become; None without one."""
    with open_checkpoint(path) as file:
        assert "yes" not in (file.chat_template or "")
        found = file.files.get("vectors.json")
    return None if found is None else json.loads(found)


@pytest.mark.parametrize(
    ("kind", "rules"),
    [(0, None), (1, {"pooling": "mean"}), (3, {"pooling": "last"})],
)
def test_the_pooling_is_that_of_the_file(
    kind: int, rules: Any, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    change = set_key("qwen3.pooling_type", kind)
    assert said(write_gguf(checkpoints(CASE), tmp_path / "x.gguf", change=change)) == rules


@pytest.mark.parametrize(
    ("kind", "words"), [(2, "a first token"), (7, "pooling_type 7"), (4, "a head with the labels")]
)
def test_another_pooling_is_refused(
    kind: int, words: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    change = set_key("qwen3.pooling_type", kind)
    with pytest.raises(UnsupportedError, match=words) as caught:
        said(write_gguf(checkpoints(CASE), tmp_path / "x.gguf", change=change))
    assert caught.value.code == "unsupported.pooling"


def ranking(folder: Path, path: Path, labels: list[str], asked: str, rows: int = 2) -> Path:
    """A file as llama.cpp's converter writes it, which keeps two rows of the head."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    table = reference.load_weights(folder)["model.embed_tokens.weight"]
    head = table[[tokenizer.token_to_id(word) for word in ("yes", "no")]][:rows]

    def change(writer: GGUFWriter) -> None:
        set_key("qwen3.pooling_type", 4)(writer)
        set_key("tokenizer.chat_template", ...)(writer)
        writer.add_classifier_output_labels(labels)
        writer.add_chat_template([{"name": "rerank", "template": asked}])
        writer.add_tensor("cls.output.weight", np.ascontiguousarray(head))

    return write_gguf(folder, path, change=change)


def test_a_model_that_ranks_has_the_direction_of_its_folder(tmp_path: Path) -> None:
    folder = ranker(tmp_path)
    with open_checkpoint(folder) as opened:
        expected = json.loads(opened.files["vectors.json"])["yes_less_no"]
    found = said(ranking(folder, tmp_path / "x.gguf", ["yes", "no"], ASKED))
    assert found == {"pooling": "last", "normalize": True, "yes_less_no": expected}
    # Older converters wrote the whole head and said nothing: the name is all there is.
    whole = write_gguf(folder, tmp_path / "Qwen3-Reranker-Q8_0.gguf")
    assert said(whole) == {"yes_less_no": expected}
    assert said(whole.rename(tmp_path / "Qwen3.gguf")) is None


@pytest.mark.parametrize(
    ("labels", "asked", "rows", "kind", "words"),
    [
        (["no", "yes"], ASKED, 2, UnsupportedError, "with the labels"),
        (["yes", "no"], "Is {document} it?", 2, UnsupportedError, "to be asked otherwise"),
        (["yes", "no"], ASKED, 1, CheckpointError, r"cls.output.weight has shape \[1, 64\]"),
    ],
)
def test_another_way_to_rank_is_refused(
    labels: list[str],
    asked: str,
    rows: int,
    kind: type[EdgewiseError],
    words: str,
    tmp_path: Path,
) -> None:
    path = ranking(ranker(tmp_path), tmp_path / "x.gguf", labels, asked, rows)
    with pytest.raises(kind, match=words) as caught:
        said(path)
    assert caught.value.remedy
