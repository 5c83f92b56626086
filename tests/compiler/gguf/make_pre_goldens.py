"""Writes ``pre.json``: the ids that llama.cpp gives texts by each way of cutting them that is read.

Run from the repository root where llama-cpp-python can be imported:

    python -m tests.compiler.gguf.make_pre_goldens

The vocabulary is byte-level BPE that was trained without cutting, so that its tokens go over all
borders, and where a text is cut decides over ids. Of the ids of each text only a hash is kept.
"""

from __future__ import annotations

import json
import tempfile
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from gguf import GGUFWriter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from edgewise_compiler.gguf.byte_level import RULES
from tests.parity.make_checkpoints import CORPUS
from tests.runtime.text.corpus import TEXTS, fuzzed
from tests.runtime.text.hashing import packed

GOLDENS = Path(__file__).with_name("pre.json")
FUZZED, TOKENS = 250, 900
BEGIN = "<|begin|>"
ALIKE = (
    *("phi-2", "olmo", "starcoder", "refact", "llama3", "llama-v3", "falcon3", "midm-2.0"),
    *("pixtral", "smaug-bpe", "deepseek-r1-qwen"),
)
"""Names of rules that others have, too; these are compared and not kept."""


def texts() -> list[str]:
    """What the ids are of."""
    return [*TEXTS, *(fuzzed(index) for index in range(FUZZED))]


@cache
def trained() -> tuple[list[str], list[str]]:
    """Tokens and merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS,
        special_tokens=[BEGIN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    own = (f"{a}{b}" for a in ("1", "23", "a", "Ab", " ", "\n", "'s", "!", "é") for b in TEXTS)
    tokenizer.train_from_iterator([*CORPUS, *TEXTS, *own], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return list(model["vocab"]), [" ".join(merge) for merge in model["merges"]]


def comparable(pre: str, text: str) -> bool:
    """Whether llama.cpp cuts a text as the tokenizer it imitates does.

    It composes nothing, as Qwen's does, and knows capitals of ASCII alone, and no marks, where
    words begin at capitals.
    """
    if pre == "qwen2":
        return unicodedata.normalize("NFC", text) == text
    if pre in ("tekken", "gpt-4o"):
        return all(c.isascii() or unicodedata.category(c)[0] not in "LM" for c in text)
    return True


def metadata(pre: str) -> dict[str, Any]:
    """What a file says, by the last part of each key."""
    tokens, merges = trained()
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "merges": merges,
        "bos_token_id": tokens.index(BEGIN),
        "eos_token_id": tokens.index(BEGIN),
    }


def their_ids(pre: str) -> list[list[int]]:
    """What llama.cpp makes of the texts."""
    import llama_cpp

    pairs = metadata(pre)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        writer = GGUFWriter(path, "llama")
        writer.add_context_length(512)
        writer.add_embedding_length(32)
        writer.add_block_count(1)
        writer.add_feed_forward_length(32)
        writer.add_head_count(1)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model(pairs["model"])
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(pairs["tokens"])
        writer.add_token_merges(pairs["merges"])
        writer.add_token_types([3 if token == BEGIN else 1 for token in pairs["tokens"]])
        writer.add_bos_token_id(pairs["bos_token_id"])
        writer.add_eos_token_id(pairs["eos_token_id"])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
        return [list(model.tokenize(t.encode(), add_bos=True, special=False)) for t in texts()]


def main() -> None:
    """Write the file, and say which texts have other ids here."""
    from edgewise_compiler.gguf.tokenizer import tokenizer_files

    found = {}
    for pre in RULES:
        pairs = {f"tokenizer.ggml.{key}": value for key, value in metadata(pre).items()}
        files = tokenizer_files(pairs, Path("x.gguf"))
        ours = Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
        theirs = their_ids(pre)
        cases = zip(texts(), theirs, strict=True)
        others = [t for t, ids in cases if comparable(pre, t) and ours.encode(t).ids != ids]
        print(f"{pre}: {len(others)} of {len(theirs)} texts differ: {others[:4]}")
        if pre not in ALIKE:
            found[pre] = "".join(map(packed, theirs))
    GOLDENS.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
