"""A published GGUF file is read as others read it: values, token ids and prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer as Backend

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_runtime.text import ChatTemplate, Tokenizer
from tests.real.make_goldens import GOLDENS, texts
from tests.runtime.text.conversations import CONVERSATIONS
from tests.runtime.text.hashing import WIDTH, packed
from tools.smollm2 import smollm2

pytestmark = pytest.mark.full


def test_every_value_of_the_metadata_is_that_of_the_gguf_package() -> None:
    theirs = {
        name: field.contents()
        for name, field in GGUFReader(smollm2()).fields.items()
        if not name.startswith("GGUF.")  # the container's own numbers
    }
    with GgufReader(smollm2()) as reader:
        assert reader.metadata.keys() == theirs.keys()
        for name, value in reader.metadata.items():
            assert np.array_equal(value, theirs[name]), name


def test_every_tensor_is_bit_for_bit_that_of_the_gguf_package() -> None:
    theirs = {tensor.name: tensor for tensor in GGUFReader(smollm2()).tensors}
    with GgufReader(smollm2()) as reader:
        assert set(reader.names()) == theirs.keys()
        assert {reader.dtype(name) for name in theirs} == {"F32", "Q4_1", "Q8_0"}
        for name, tensor in theirs.items():
            expected = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            np.testing.assert_array_equal(
                reader.read(name).view(np.uint32), expected.view(np.uint32), name
            )


def test_token_ids_are_those_of_llama_cpp(checkpoint: Checkpoint) -> None:
    backend = Backend.from_buffer(checkpoint.files["tokenizer.json"])
    golden = json.loads(GOLDENS.read_text())["ids"]
    expected = [golden[at : at + WIDTH] for at in range(0, len(golden), WIDTH)]
    found = {text: packed(backend.encode(text).ids) for text in texts()}
    assert len(expected) == len(texts())
    assert [t for t, ids in zip(texts(), expected, strict=True) if found[t] != ids] == []


def test_prompts_are_those_of_transformers(checkpoint: Checkpoint, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    for name, content in checkpoint.files.items():
        (tmp_path / name).write_bytes(content)
    reference: Any = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = Tokenizer.from_folder(tmp_path)
    template = ChatTemplate.from_folder(tmp_path, tokenizer.special_tokens)
    assert template is not None
    for chat in CONVERSATIONS:
        if not all(isinstance(message.get("content"), str) for message in chat.messages):
            continue  # this template joins texts
        expected = reference.apply_chat_template(
            chat.messages, tokenize=False, add_generation_prompt=True
        )
        found = template.render(chat.messages, add_generation_prompt=True)
        assert found == expected
        ids = reference(expected, add_special_tokens=False)["input_ids"]
        assert tokenizer.encode(found, add_special_tokens=False) == ids
