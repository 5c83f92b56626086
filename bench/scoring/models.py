"""The models whose quality is told, each with a text that nothing was trained or calibrated on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines import BUILD
from peers.gguf_writer import write_gguf
from tools.demo_corpus import generate
from tools.smollm2 import smollm2

ROOT = Path(__file__).parents[2]
SCORES = BUILD / "scoring"
"""What was made to score models, and what was found."""

HELD_OUT_SEED, DIALOGUES = 1_000_003, 60


@dataclass(frozen=True)
class Model:
    """A model as edgewise and as llama.cpp read it.

    Attributes:
        key: what the command line and the figures call it.
        title: what the page calls it.
        checkpoint: what edgewise compiles.
        gguf: the same weights in a file that llama.cpp's quantizer reads.
        text: what is scored.
    """

    key: str
    title: str
    checkpoint: Callable[[], Path]
    gguf: Callable[[], Path]
    text: Callable[[], str]

    @property
    def folder(self) -> Path:
        """Where its bundles, files and scores are kept."""
        return SCORES / self.key


def held_out() -> str:
    """Prose and a document."""
    return (ROOT / "examples/held-out/text.txt").read_text("utf-8")


def demo() -> Path:
    """The demo model's checkpoint."""
    return ROOT / "examples/demo-model"


def demo_gguf() -> Path:
    """The demo model, in float16 as its checkpoint is."""
    path = SCORES / "demo.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_gguf(demo(), path)
    return path


def dialogues() -> str:
    """Dialogues that were not in the demo model's training text, one after another."""
    return "".join(generate(HELD_OUT_SEED, index).render() for index in range(DIALOGUES))


MODELS = {
    model.key: model
    for model in (
        Model("smollm2", "SmolLM2-135M-Instruct", smollm2, smollm2, held_out),
        Model("demo", "The demo model", demo, demo_gguf, dialogues),
    )
}
