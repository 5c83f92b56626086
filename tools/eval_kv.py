"""What int8 KV pages change: the same text through the same weights, with either kind of pages.

Compiles the demo model twice for every scheme, teacher-forces both bundles through generated
dialogues that it was never trained on, and prints how far their predictions are apart: the
Kullback-Leibler divergence from the program's own pages to int8, in nats a token, how often the
most likely token is the same, and the perplexity of the assistant's text.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

# As a script, this file sees its own folder, not the root that its package is named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgewise import Engine
from edgewise.divergence import Logits, Nats, divergence, losses, perplexity, same_top1
from edgewise_compiler.compile import compile_model
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import QUANTS
from edgewise_runtime.format.state import paged_state
from tools.demo_corpus import generate
from tools.demo_corpus.tokenizer import encode

DEMO = Path(__file__).resolve().parents[1] / "examples/demo-model"
HELD_OUT_SEED = 1_000_003
DIALOGUES = 60


@dataclass(frozen=True)
class Text:
    """Tokens, and of each whether it belongs to the answers whose perplexity counts."""

    ids: list[int]
    counts: list[bool]


@dataclass(frozen=True)
class Compared:
    """Two bundles over the same tokens: the first has its program's own pages, the second int8.

    Attributes:
        divergence: of every position, in nats.
        same_best: share of positions with the same most likely token.
        perplexity: of the answers, under each.
        token_bytes: of KV for each token, in each.
    """

    divergence: Nats
    same_best: float
    perplexity: tuple[float, float]
    token_bytes: tuple[float, float]

    def row(self, name: str) -> str:
        """A line of the table that `main` prints."""
        mean, tail = self.divergence.mean(), np.quantile(self.divergence, 0.99)
        own, int8 = self.perplexity
        return (
            f"| {name} | {mean:.2e} | {tail:.2e} | {self.divergence.max():.2e} "
            f"| {self.same_best:.2%} | {own:.4f} | {int8:.4f} "
            f"| {self.token_bytes[0]:,.0f} | {self.token_bytes[1]:,.0f} |"
        )


HEADER = (
    "| weights | KL mean | 99% below | largest | same best token | perplexity | with int8 "
    "| bytes a token | with int8 |\n|---|---|---|---|---|---|---|---|---|"
)


def answer_losses(logits: Logits, text: Text) -> Nats:
    """Negative log-probability of every token that counts, but the first of all."""
    places = np.array([i for i in range(1, len(text.ids)) if text.counts[i]], dtype=np.intp)
    return losses(logits[places - 1], np.array(text.ids)[places])


def held_out(tokenizer: Tokenizer, count: int) -> Iterator[Text]:
    """Dialogues that were not in the training text."""
    for index in range(count):
        ids, is_answer = encode(tokenizer, generate(HELD_OUT_SEED, index))
        yield Text(list(ids), list(is_answer))


def packed(texts: Sequence[Text], most: int) -> list[Text]:
    """The texts in order, as many after each other as fit ``most`` tokens; at least one."""
    runs = [Text([], [])]
    for text in texts:
        if runs[-1].ids and len(runs[-1].ids) + len(text.ids) > most:
            runs.append(Text([], []))
        runs[-1] = Text([*runs[-1].ids, *text.ids], [*runs[-1].counts, *text.counts])
    return runs


def token_bytes(bundle: Bundle) -> float:
    """Bytes of KV a token, under the bundle's only program."""
    (size,) = bundle.manifest.programs[0].page_bytes
    return size / paged_state(bundle.manifest).page_tokens


def compare(own: Path, int8: Path, texts: Iterable[Text]) -> Compared:
    """Score the texts with both bundles."""
    apart, same, lost = [], [], ([], [])  # type: ignore[var-annotated]
    with Engine(own) as first, Engine(int8) as second:
        for text in texts:
            logits = [engine.score(text.ids) for engine in (first, second)]
            apart.append(divergence(*logits))
            same.append(same_top1(*logits))
            for found, scores in zip(lost, logits, strict=True):
                found.append(answer_losses(scores, text))
    sizes = [token_bytes(Bundle.open(path)) for path in (own, int8)]
    perplexities = [perplexity(np.concatenate(found)) for found in lost]
    return Compared(
        np.concatenate(apart),
        float(np.concatenate(same).mean()),
        (perplexities[0], perplexities[1]),
        (sizes[0], sizes[1]),
    )


def compare_pages(checkpoint: Path, quant: str, folder: Path, texts: Sequence[Text]) -> Compared:
    """Compile ``checkpoint`` for the CPU with either kind of pages in ``folder``, and compare."""
    context = max(len(text.ids) for text in texts)
    own, int8 = (
        compile_model(checkpoint, folder / f"{quant}-{kv}", quant=quant, kv=kv, context=context)
        for kv in ("auto", "int8")
    )
    return compare(own, int8, texts)


def main() -> None:
    """Print a line for every scheme."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quants", nargs="+", choices=QUANTS, default=["f32", "q8", "q4"])
    parser.add_argument("--dialogues", type=int, default=DIALOGUES)
    parser.add_argument(
        "--fill", type=int, default=1, metavar="N", help="fill contexts of N tokens with dialogues"
    )
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    texts = packed(list(held_out(tokenizer, args.dialogues)), args.fill)
    lengths = [len(text.ids) for text in texts]
    print(f"{sum(lengths):,} tokens in {len(texts)} contexts of up to {max(lengths):,}")
    print(HEADER)
    for quant in args.quants:
        with tempfile.TemporaryDirectory() as folder:
            print(compare_pages(DEMO, quant, Path(folder), texts).row(quant), flush=True)


if __name__ == "__main__":
    main()
