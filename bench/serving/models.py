"""What both servers serve: a model by name or a file of one, and how its weights are stored."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checkpoint import SHAPES
from edgewise_runtime.format.bundle import Bundle
from engines import BUILD, HERE, checkpoint, our_bundle
from peers.gguf_writer import write_gguf
from tools.smollm2 import smollm2

AS_FILE = "as-file"
PRESET, PEER_TYPE = "q4", "Q4_0"
"""Of what is in floats: both have 16 levels and a float16 scale for 32 weights."""
SCORED = "smollm2"
"""The model whose divergence is told beside weights that are random: docs/quality.json has it."""
QUALITY = HERE.parent / "docs/quality.json"

_NAMED: dict[str, Callable[[], Path]] = {
    "smollm2": smollm2,
    "demo": lambda: HERE.parent / "examples/demo-model",
    **{name: partial(checkpoint, shape) for name, shape in SHAPES.items()},
}
NAMES = tuple(_NAMED)


@dataclass(frozen=True)
class Contest:
    """A model for two servers.

    Attributes:
        bundle: what edgewise serves.
        file: what llama.cpp serves; None where it is left out.
        context: the most tokens of prompt and answer.
        vocab: tokens.
        weights: how each stores them, ours first, and how far that is from the float32 model.
    """

    bundle: Path
    file: Path | None
    context: int
    vocab: int
    weights: tuple[str, ...]


def contest(
    asked: str, quant: str | None, context: int, llama: Path | None, bundle: Path | None = None
) -> Contest:
    """Compile and quantize what is not there yet.

    Args:
        asked: one of `NAMES`, or a GGUF file, which llama.cpp serves as it is.
        quant: a preset of edgewise's; None for ``as-file`` where there is a GGUF file, which keeps
            its codes, else `PRESET`.
        llama: a prefix with bin/llama-quantize, where llama.cpp takes part.
        bundle: compiled already, of that model.
    """
    source = _NAMED[asked]() if asked in _NAMED else Path(asked)
    kept = source.suffix == ".gguf"
    quant = quant or (AS_FILE if kept else PRESET)
    folder = BUILD / f"{source.stem}-{quant}-{context}"
    made = bundle or our_bundle(source, folder, quant, "--context", str(context))
    model = Bundle.open(made, verify=False).manifest.model
    weights, file = [_said(model.stored)], None
    if llama is not None:
        file = source if kept else _quantized(source, llama)
        weights.append(_said(source.suffixes[0][1:] if kept else f"{PEER_TYPE}+pure"))
    return Contest(made, file, model.context, model.vocab, tuple(weights))


def _quantized(source: Path, llama: Path) -> Path:
    """The model in the peer's type of as many bits as ours, every matrix of it (``--pure``)."""
    file = BUILD / f"{source.name}-{PEER_TYPE}-pure.gguf"
    if not file.exists():
        whole = BUILD / f"{source.name}-unquantized.gguf"
        if not whole.exists():
            write_gguf(source, whole)
        partial = file.with_suffix(".partial")
        tool = str(llama.absolute() / "bin/llama-quantize")
        line = [tool, "--pure", str(whole), str(partial), PEER_TYPE]
        subprocess.run(line, check=True, capture_output=True)
        partial.replace(file)
    return file


def _said(kind: str) -> str:
    """A way to store weights, and its quality where that is known."""
    if kind == AS_FILE:
        return f"{kind} (the file's own codes)"
    known = json.loads(QUALITY.read_text("utf-8")).get(SCORED, {}).get(kind)
    return kind if known is None else f"{kind} (KL {known['kl']['mean']:.3f} on SmolLM2-135M)"
