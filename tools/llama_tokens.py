"""Compares greedy tokens with llama.cpp's, on files of the types that its quantizer writes.

    python -m tools.llama_tokens [--types TYPE ...] [--quant NAME] [--tokens N] [--threads N]

Needs llama-cpp-python beside edgewise, and the real model (requirements/model.lock). Of its file
llama.cpp's quantizer makes one of each type; both engines read each and answer plain questions.
What llama.cpp answers is then given to ours token by token: where ours finds another token
likeliest, the gap between the two in our logits says whether that was a near tie. llama.cpp rounds
activations to 8 bits and ours in float32 does not, so near ties fall either way.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise import Engine
from edgewise_compiler.compile import compile_model
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import ChatTemplate
from tools.plain_questions import QUESTIONS
from tools.smollm2 import smollm2

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "llama-tokens"
PACKAGED = "packaged"
TYPES = (PACKAGED, "Q4_0", "Q4_1", "Q8_0", "Q4_K_M", "Q6_K", "IQ4_NL")
CONTEXT = 512

NEAR = 0.5
"""Logits: two tokens that are no further apart are a near tie. Of either one the two engines'
logits differ by 0.13 (`Found.rms`) with the weights of the packaged file, so a difference of two by
0.19: this is less than three times as much."""

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Found:
    """One file's comparison.

    Attributes:
        equal: questions whose greedy tokens are all the same.
        questions: of how many.
        same: tokens of llama.cpp's that ours finds likeliest after the same text.
        tokens: of how many.
        gaps: at the others, how far our likeliest lies above llama.cpp's, in our logits.
        rms: of the differences between both engines' logits, without their means.
    """

    equal: int
    questions: int
    same: int
    tokens: int
    gaps: tuple[float, ...]
    rms: float

    @property
    def verdict(self) -> str:
        """What the differences amount to."""
        if self.equal == self.questions:
            return "equal"
        return "near ties" if max(self.gaps, default=0.0) <= NEAR else "different"


def main() -> int:
    """Compare each type; the status is 1 where tokens differ by more than near ties."""
    args = arguments()
    print("| file | tensors | equal answers | same tokens | largest gap | RMS | |")
    print("|---" * 7 + "|", flush=True)
    bad = False
    for kind in args.types:
        path = written(kind)
        found = compare(path, args.quant, args.tokens, args.threads)
        bad |= found.verdict == "different"
        print(
            f"| {kind} | {tensors(path)} | {found.equal} of {found.questions} "
            f"| {found.same} of {found.tokens} | {max(found.gaps, default=0):.3f} "
            f"| {found.rms:.3f} | {found.verdict} |",
            flush=True,
        )
    return int(bad)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--quant", default="f32", help="how ours stores the file's weights")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def written(kind: str) -> Path:
    """The real model in a type, by llama.cpp's quantizer; made once."""
    import llama_cpp

    if kind == PACKAGED:
        return smollm2()
    path = FOLDER / f"{kind}.gguf"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
        params.allow_requantize = True
        partial = path.with_suffix(".partial")
        arguments = str(smollm2()).encode(), str(partial).encode(), ctypes.byref(params)
        if code := llama_cpp.llama_model_quantize(*arguments):
            raise SystemExit(f"llama_model_quantize returned {code}")
        partial.replace(path)
    return path


def tensors(path: Path) -> str:
    """How many tensors of a file have which type: a type's file is a mixture."""
    with GgufReader(path) as reader:
        kinds = Counter(reader.dtype(name) for name in reader.names())
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def compare(path: Path, quant: str, tokens: int, threads: int) -> Found:
    """Answers of both engines to all questions."""
    equal = same = 0
    gaps: list[float] = []
    squares: list[float] = []
    with ours(path, quant, threads) as (engine, template), theirs(path, threads) as model:
        for question in QUESTIONS:
            text = template.render(
                [{"role": "user", "content": question}], add_generation_prompt=True
            )
            prompt = engine.tokenizer.encode(text, add_special_tokens=False)
            if prompt != list(model.tokenize(text.encode(), add_bos=False, special=True)):
                raise SystemExit(f"The ids of {question!r} differ.")
            answer, expected = greedy(model, prompt, tokens)
            options: Any = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
            equal += list(engine.generate(prompt, **options).token_ids) == answer
            logits = engine.score([*prompt, *answer[:-1]])[len(prompt) - 1 :]
            best = logits.argmax(axis=1)
            rows = np.arange(tokens)
            same += int((best == answer).sum())
            apart = logits[rows, best] - logits[rows, answer]
            gaps += apart[best != answer].tolist()
            squares.append(float((logits - expected).var(axis=1).mean()))
    count = len(QUESTIONS)
    return Found(equal, count, same, count * tokens, tuple(gaps), float(np.sqrt(np.mean(squares))))


@contextmanager
def ours(path: Path, quant: str, threads: int) -> Iterator[tuple[Engine, ChatTemplate]]:
    """A file compiled for this CPU, and its template."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        bundle = Path(folder) / "bundle"
        compile_model(path, bundle, targets=("cpu",), quant=quant, context=CONTEXT)
        with Engine(bundle, threads=threads) as engine:
            special = engine.tokenizer.special_tokens
            template = ChatTemplate.from_bundle(Bundle.open(bundle), special)
            if template is None:
                raise SystemExit(f"{path} has no chat template.")
            yield engine, template


@contextmanager
def theirs(path: Path, threads: int) -> Iterator[Any]:
    """A file in llama.cpp."""
    import llama_cpp

    model = llama_cpp.Llama(
        model_path=str(path),
        n_ctx=CONTEXT,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )
    try:
        yield model
    finally:
        model.close()


def greedy(model: Any, prompt: Sequence[int], tokens: int) -> tuple[list[int], Logits]:
    """llama.cpp's likeliest tokens after a prompt, and the logits that chose them."""
    model.reset()
    model.eval(prompt)
    answer: list[int] = []
    rows: list[Logits] = []
    for position in range(len(prompt) - 1, len(prompt) - 1 + tokens):
        rows.append(model.scores[position].copy())
        answer.append(int(rows[-1].argmax()))
        model.eval(answer[-1:])
    return answer, np.stack(rows)


if __name__ == "__main__":
    sys.exit(main())
