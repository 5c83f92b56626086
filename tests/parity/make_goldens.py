"""Runs transformers over the tiny checkpoints and keeps the answers: float32, CPU, eager.

``python tests/parity/make_goldens.py [CASE...]`` writes goldens/<case>.npz, without names of all
cases, each with:

    weights_sha256   of the checkpoint's weight files in order of name, hex
    tokens           int32 [n]: a teacher-forced text
    rows             int32 [r]: the positions whose logits are kept
    logits           float32 [r, vocab]
    prompt           int32 [p]: the first tokens of ``tokens``
    greedy           int32 [48]: what follows the prompt, ends ignored
    margin           float32 [48]: top-1 minus top-2 logit at each of those
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.parity.cases import CASES
from tests.parity.make_checkpoints import write_checkpoint

GOLDENS = Path(__file__).parent / "goldens"

LENGTH = 100
"""Tokens of the text: two segments of attention and part of a seventh page."""

ROWS = (0, 1, 2, 14, 15, 16, 17, 31, 32, 33, 47, 62, 63, 64, 65, 66, 79, 80, 81, 97, 98, 99)
"""Around the edges of pages (16 tokens) and attention segments (64), where programs go wrong."""

PROMPT, GREEDY = 30, 48


def load(name: str) -> dict[str, Any]:
    """The golden of the case ``name``."""
    with np.load(GOLDENS / f"{name}.npz") as file:
        return dict(file)


def weights_sha256(folder: Path) -> str:
    """Identifies a checkpoint's weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_golden(name: str, folder: Path) -> dict[str, Any]:
    """What transformers computes for the checkpoint in ``folder``."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    vocab = CASES[name].config["vocab_size"]
    tokens = np.random.PCG64(CASES[name].seed).random_raw(LENGTH) % np.uint64(vocab)
    tokens = tokens.astype(np.int32)
    with torch.inference_mode():
        logits = model(torch.from_numpy(tokens)[None].long()).logits[0].numpy()
        text, margins = tokens[:PROMPT].tolist(), []
        for _ in range(GREEDY):
            top = torch.topk(model(torch.tensor([text])).logits[0, -1], 2)
            text.append(int(top.indices[0]))
            margins.append(float(top.values[0] - top.values[1]))
    return {
        "weights_sha256": weights_sha256(folder),
        "tokens": tokens,
        "rows": np.array(ROWS, np.int32),
        "logits": logits[list(ROWS)],
        "prompt": tokens[:PROMPT],
        "greedy": np.array(text[PROMPT:], np.int32),
        "margin": np.array(margins, np.float32),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of them")
    for case in parser.parse_args().cases or CASES:
        with tempfile.TemporaryDirectory() as temporary:
            golden = make_golden(case, write_checkpoint(case, Path(temporary)))
        np.savez_compressed(GOLDENS / f"{case}.npz", **golden)
        spread, margin = golden["logits"].std(), golden["margin"].min()
        distinct = len(set(golden["greedy"].tolist()))
        print(f"{case}: logits ±{spread:.2f}, least margin {margin:.4f}, {distinct} tokens")
