"""Writes ``sentencepiece.json``: a small vocabulary, and the ids that llama.cpp gives texts by it.

Run from the repository root where sentencepiece and llama-cpp-python can be imported:

    python -m tests.compiler.gguf.make_goldens
    python -m tests.compiler.gguf.make_goldens tokenizer.model     only compares, with a real one

sentencepiece trains BPE with byte fallback on the documentation, as it did for Llama 2 and
Mistral. Of the ids of each text only a hash is kept, with and without a space put first.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter

from edgewise_compiler.gguf.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED
from tests.runtime.text.corpus import TEXTS, fuzzed
from tests.runtime.text.hashing import packed

GOLDENS = Path(__file__).with_name("sentencepiece.json")
ROOT = Path(__file__).parents[3]
FUZZED = 1000
PIECES = 700
ADDED = {"<|user|>": CONTROL, "<tool>": USER_DEFINED, "two words": USER_DEFINED}


def texts() -> list[str]:
    """What the ids are of."""
    own = ["<|user|> hi<tool>there", "a<|user|>", "<tool>", "in two words more", "<unk> <0x0A>"]
    return [*TEXTS, *own, *(fuzzed(index) for index in range(FUZZED))]


def trained() -> bytes:
    """A model of sentencepiece's."""
    import sentencepiece

    lines = [line for path in sorted((ROOT / "docs").glob("*.md")) for line in _lines(path)]
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=PIECES,
        byte_fallback=True,
        character_coverage=0.9995,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        num_threads=1,
    )
    return model.getvalue()


def _lines(path: Path) -> Iterator[str]:
    yield from (line[:2000] for line in path.read_text("utf-8").splitlines() if line.strip())


def vocabulary(model: bytes) -> dict[str, Any]:
    """Tokens, scores and types as llama.cpp's converter writes them."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = [
        (
            pieces.id_to_piece(i),
            pieces.get_score(i),
            UNKNOWN
            if pieces.is_unknown(i)
            else CONTROL
            if pieces.is_control(i)
            else BYTE
            if pieces.is_byte(i)
            else NORMAL,
        )
        for i in range(pieces.get_piece_size())
    ]
    rows += [(text, -1000.0, kind) for text, kind in ADDED.items()]
    tokens, scores, types = map(list, zip(*rows, strict=True))
    return {"tokens": tokens, "scores": scores, "types": types}


def metadata(vocabulary: dict[str, Any], prefix: bool = True) -> dict[str, Any]:
    """What a file of this vocabulary says, by the last part of each key."""
    return {
        "model": "llama",
        "tokens": vocabulary["tokens"],
        "scores": np.array(vocabulary["scores"], np.float32),
        "token_type": np.array(vocabulary["types"], np.int32),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "add_space_prefix": prefix,
    }


def their_ids(vocabulary: dict[str, Any], prefix: bool) -> list[list[int]]:
    """What llama.cpp makes of the texts."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        writer = GGUFWriter(path, "llama")
        writer.add_context_length(512)
        writer.add_embedding_length(32)
        writer.add_block_count(1)
        writer.add_feed_forward_length(32)
        writer.add_head_count(1)
        writer.add_layer_norm_rms_eps(1e-5)
        pairs = metadata(vocabulary, prefix)
        writer.add_tokenizer_model(pairs["model"])
        writer.add_token_list(pairs["tokens"])
        writer.add_token_scores(pairs["scores"].tolist())
        writer.add_token_types(pairs["token_type"].tolist())
        writer.add_bos_token_id(pairs["bos_token_id"])
        writer.add_eos_token_id(pairs["eos_token_id"])
        writer.add_unk_token_id(pairs["unknown_token_id"])
        writer.add_add_space_prefix(prefix)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
        return [list(model.tokenize(t.encode(), add_bos=True, special=True)) for t in texts()]


def main() -> None:
    """Write the file, or compare a model's ids with ours."""
    if sys.argv[1:]:
        compare(vocabulary(Path(sys.argv[1]).read_bytes()))
        return
    made = vocabulary(trained())
    ids = {str(p): "".join(map(packed, their_ids(made, p))) for p in (True, False)}
    GOLDENS.write_text(json.dumps(made | {"ids": ids}, ensure_ascii=False) + "\n")


def compare(made: dict[str, Any]) -> None:
    """Print how many texts have other ids here."""
    from tokenizers import Tokenizer

    from edgewise_compiler.gguf.tokenizer import tokenizer_files

    for prefix in (True, False):
        pairs = {f"tokenizer.ggml.{k}": v for k, v in metadata(made, prefix).items()}
        ours = Tokenizer.from_str(
            json.dumps(tokenizer_files(pairs, Path("x.gguf"))["tokenizer.json"])
        )
        ids = zip(texts(), their_ids(made, prefix), strict=True)
        others = [text for text, theirs in ids if ours.encode(text).ids != theirs]
        print(f"prefix {prefix}: {len(others)} of {len(texts())} texts differ: {others[:3]}")


if __name__ == "__main__":
    main()
