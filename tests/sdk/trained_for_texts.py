"""Tiny checkpoints of models that embed or rank texts, as sentence-transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from tests.parity import reference
from tests.parity.make_checkpoints import write_checkpoint
from tests.parity.storing import write_weights

CASE = "qwen3-gqa2-tied"
PROMPTS = {"query": "Instruct: find it\nQuery:", "document": ""}


def embedder(folder: Path, *, mode: str = "pooling_mode_lasttoken", normalize: bool = True) -> Path:
    """A model without its head, whose tokenizer ends every text with its end token."""
    made = _bare(write_checkpoint(CASE, folder))
    modules = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}" if i else ""}
        for i, kind in enumerate(modules)
    ]
    write(made / "modules.json", listed)
    (made / "1_Pooling").mkdir()
    write(made / "1_Pooling/config.json", {"word_embedding_dimension": 64, mode: True})
    write(made / "config_sentence_transformers.json", {"prompts": PROMPTS})
    return made


def ranker(folder: Path) -> Path:
    """A model that says yes or no, told by its folder's name."""
    made = write_checkpoint(CASE, folder)
    config = json.loads((made / "config.json").read_text())
    write(made / "config.json", config | {"max_position_embeddings": 1024})
    tokenizer = Tokenizer.from_file(str(made / "tokenizer.json"))
    # Two that the tiny tokenizer surely has.
    state = json.loads(tokenizer.to_str())
    free = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)[-2:]
    merges = [m for m in state["model"]["merges"] if "".join(m) not in free]
    for old, new in zip(free, ("yes", "no"), strict=True):
        state["model"]["vocab"][new] = state["model"]["vocab"].pop(old)
    state["model"]["merges"] = merges
    write(made / "tokenizer.json", state)
    return made.rename(folder / "tiny-reranker")


def _bare(made: Path) -> Path:
    config = json.loads((made / "config.json").read_text())
    write(made / "config.json", config | {"architectures": ["Qwen3Model"]})
    weights = reference.load_weights(made)
    bare = {name.removeprefix("model."): values for name, values in weights.items()}
    write_weights(made, bare, "F32", 1)
    tokenizer = Tokenizer.from_file(str(made / "tokenizer.json"))
    end = tokenizer.id_to_token(1)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, 1)]
    )
    tokenizer.save(str(made / "tokenizer.json"))
    return made


def write(path: Path, value: Mapping[str, Any] | list[Any]) -> None:
    """As JSON."""
    path.write_text(json.dumps(value))
