"""How well a model predicts a text, and how far its predictions are from a reference's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.cache import Progress
from edgewise.divergence import Logits, Nats, divergence, losses, perplexity, same_top1
from edgewise.scorers import Scorer, open_scorer
from edgewise_runtime.errors import EngineError, InputError

CONTEXT = 512
LEAST_CONTEXT = 4


@dataclass(frozen=True)
class ModelScore:
    """One model over the text.

    Attributes:
        name: the folder's or the file's.
        program: what ran it.
        perplexity: of the scored tokens.
        weights: how many it has.
        weight_bytes: what they take as they are stored, scales included.
        scoring_tokens_per_s: tokens of whole windows over the time for their logits, of all rows:
            neither the speed of prefill nor that of decoding.
    """

    name: str
    program: str
    perplexity: float
    weights: int
    weight_bytes: int
    scoring_tokens_per_s: float

    @property
    def bits_per_weight(self) -> float:
        """Stored bits over weights."""
        return 8 * self.weight_bytes / self.weights


@dataclass(frozen=True)
class Apart:
    """How far a model's predictions are from the reference's, over the scored tokens.

    Attributes:
        mean: of KL(reference || model), in nats.
        median: of the same.
        p999: what 99.9% of them lie below, between two of them by linear interpolation.
        same_top1: share of tokens for which both find the same one likeliest.
    """

    mean: float
    median: float
    p999: float
    same_top1: float


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Attributes:
        model: the model.
        reference: what it was compared with, None without one.
        apart: the comparison, None without a reference.
        context: tokens of a window.
        windows: how many there were.
        scored_tokens: how many tokens of them were scored.
    """

    model: ModelScore
    reference: ModelScore | None
    apart: Apart | None
    context: int
    windows: int
    scored_tokens: int

    def to_json(self) -> dict[str, Any]:
        """The same as JSON, with the bits a weight of each model."""
        data = asdict(self)
        for key, score in (("model", self.model), ("reference", self.reference)):
            if score is not None:
                data[key]["bits_per_weight"] = score.bits_per_weight
        return data


def evaluate(
    a: str | Path,
    b: str | Path | None,
    text: str,
    *,
    context: int = CONTEXT,
    tokens: int | None = None,
    threads: int | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a text with a model, and compare its predictions with a reference's.

    As llama.cpp's tool ``perplexity`` does it (tools/perplexity/perplexity.cpp there): the text is
    cut into windows of `context` tokens, each computed by itself, its first token replaced by the
    tokenizer's beginning token where it adds one. The tokens of a window's second half are scored,
    so that each has at least half a window before it; what does not fill a window is left out.
    A window's logits, [context, vocabulary] for each model, are all that is held at a time.

    Args:
        a: the model: a bundle folder; a checkpoint folder, which is compiled once, to float32; or
            a ``.gguf`` file, which llama-cpp-python runs.
        b: the reference, likewise; None for no comparison.
        text: what is scored.
        context: tokens of a window, at least 4.
        tokens: of the text at most; None for all.
        threads: of the CPU; None for what either engine thinks best.
        trust: load native code that this user did not compile.
        progress: told of compiling, and of windows ("score").

    Raises:
        InputError: ``input.text`` for a text that is too short, ``input.tokenizer`` where the
            models' vocabularies or their ids of the text differ, ``input.range``.
        UnsupportedError: a ``.gguf`` file where llama-cpp-python is not installed.
        EngineError: ``engine.logits`` where a model's logits are not finite.
        EdgewiseError: what loading a model raises.
    """
    _check(text, context, tokens)
    with ExitStack() as opened:
        scorers = [
            opened.enter_context(
                open_scorer(
                    Path(path), context=context, threads=threads, trust=trust, progress=progress
                )
            )
            for path in (a, b)
            if path is not None
        ]
        return evaluate_scorers(scorers, text, context=context, tokens=tokens, progress=progress)


def evaluate_scorers(
    scorers: Sequence[Scorer],
    text: str,
    *,
    context: int = CONTEXT,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """The same of models that are loaded: one, or one and its reference.

    Raises:
        InputError, EngineError: as :func:`evaluate` does.
    """
    _check(text, context, tokens)
    ids = _ids(scorers, text)[:tokens]
    windows = _windows(ids, _beginning(scorers[0]), context)
    seconds = [0.0 for _ in scorers]
    lost: list[list[Nats]] = [[] for _ in scorers]
    nats: list[Nats] = []
    same: list[npt.NDArray[np.bool_]] = []
    for done, window in enumerate(windows, 1):
        rows = _score(scorers, window, seconds)
        targets = np.array(window[-len(rows[0]) :], dtype=np.intp)
        for found, logits in zip(lost, rows, strict=True):
            found.append(losses(logits, targets))
        if len(rows) == 2:
            nats.append(divergence(rows[1], rows[0]))
            same.append(same_top1(rows[1], rows[0]))
        del rows
        if progress is not None:
            progress("score", done, len(windows))
    scores = [
        ModelScore(
            scorer.name,
            scorer.program,
            perplexity(np.concatenate(found)),
            scorer.weights,
            scorer.weight_bytes,
            len(windows) * context / spent,
        )
        for scorer, found, spent in zip(scorers, lost, seconds, strict=True)
    ]
    return Evaluation(
        model=scores[0],
        reference=scores[1] if len(scores) == 2 else None,
        apart=_apart(np.concatenate(nats), np.concatenate(same)) if nats else None,
        context=context,
        windows=len(windows),
        scored_tokens=sum(map(len, lost[0])),
    )


def _check(text: str, context: int, tokens: int | None) -> None:
    if context < LEAST_CONTEXT:
        raise InputError(
            f"context is {context}; a window has at least {LEAST_CONTEXT} tokens.",
            code="input.range",
        )
    if tokens is not None and tokens < context:
        raise InputError(
            f"tokens is {tokens}, less than a window of {context}.",
            remedy="Take more tokens, or a smaller context.",
            code="input.range",
        )
    if not text.strip():
        raise InputError(
            "The text to score is empty.", remedy="Name a file of prose.", code="input.text"
        )


def _ids(scorers: Sequence[Scorer], text: str) -> list[int]:
    """The text's ids, once all models agree on them and on what ids mean."""
    first, *others = scorers
    ids = first.encode(text)
    for other in others:
        if difference := _difference(first, other, ids, other.encode(text)):
            raise InputError(
                f"{first.name} and {other.name} have different tokenizers: {difference}.",
                remedy="Compare models of the same tokenizer.",
                code="input.tokenizer",
            )
    return ids


def _difference(a: Scorer, b: Scorer, ids: list[int], others: list[int]) -> str:
    """The first difference between two tokenizers; empty where none is found."""
    if a.vocab != b.vocab:
        return f"one knows {a.vocab:,} tokens, the other {b.vocab:,}"
    for index in range(a.vocab):
        mine, theirs = a.token(index), b.token(index)
        if mine is not None and theirs is not None and mine != theirs:
            return f"token {index} is {mine!r} in one and {theirs!r} in the other"
    for place, (mine_id, their_id) in enumerate(zip(ids, others, strict=False)):
        if mine_id != their_id:
            return f"at place {place} of the text one has token {mine_id}, the other {their_id}"
    if len(ids) != len(others):
        return f"the text is {len(ids):,} tokens in one and {len(others):,} in the other"
    return ""


def _beginning(scorer: Scorer) -> list[int]:
    """The token that the tokenizer puts before every text, if it does."""
    nothing, something = scorer.encode("")[:1], scorer.encode("a")[:1]
    return nothing if nothing == something else []


def _windows(ids: list[int], beginning: list[int], context: int) -> list[list[int]]:
    count = len(ids) // context
    if not count:
        raise InputError(
            f"The text is {len(ids):,} tokens long, and a window has {context:,}.",
            remedy="Take a longer text, or a smaller context.",
            code="input.text",
        )
    windows = [ids[i * context : (i + 1) * context] for i in range(count)]
    return [[*beginning, *window[len(beginning) :]] for window in windows]


def _score(scorers: Sequence[Scorer], window: list[int], seconds: list[float]) -> list[Logits]:
    """Each model's rows about the tokens after the first half; adds to the time each has taken."""
    rows = []
    for index, scorer in enumerate(scorers):
        start = perf_counter()
        logits = scorer.logits(window)
        seconds[index] += perf_counter() - start
        rows.append(logits[len(window) // 2 : -1])
        if not np.isfinite(rows[-1]).all():
            raise EngineError(
                f"{scorer.name} computes logits that are not finite.",
                remedy="`edgewise diff BUNDLE CHECKPOINT` finds the kernel at which they begin.",
                code="engine.logits",
            )
    return rows


def _apart(nats: Nats, same: npt.NDArray[np.bool_]) -> Apart:
    return Apart(
        float(nats.mean()),
        float(np.median(nats)),
        float(np.quantile(nats, 0.999)),
        float(same.mean()),
    )
