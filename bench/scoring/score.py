"""Measures a point: its size, and its predictions beside those of the same weights in float32."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.cache import is_bundle
from edgewise.divergence import Logits
from edgewise.evaluation import CONTEXT, evaluate_scorers
from edgewise.scorers import Scorer, open_scorer
from edgewise_runtime.files import write_json
from edgewise_runtime.folders import new_folder
from edgewise_runtime.format.bundle import Bundle
from engines import compiler_age, our_bundle, quantize
from scoring.models import Model
from scoring.points import CALIBRATED, PURE, REFERENCE, Point

Figures = dict[str, Any]


def scored(model: Model, point: Point, llama: Path | None, threads: int) -> Figures:
    """The figures of a point, measured once and again whenever the compiler has changed.

    Args:
        llama: the virtual environment whose llama.cpp quantizes; the package llama_cpp has to be
            importable. Not needed for a point of ours.
    """
    path = model.folder / f"{point.name}.json"
    if path.exists() and path.stat().st_mtime > (compiler_age() if point.ours else 0):
        found: Figures = json.loads(path.read_text("utf-8"))
        return found
    figures = score(model, point, llama, threads)
    write_json(path, figures, indent=1)
    return figures


def score(model: Model, point: Point, llama: Path | None, threads: int) -> Figures:
    """Compiles or quantizes the model as ``point`` says, and scores the model's text with it."""
    model.folder.mkdir(parents=True, exist_ok=True)
    path = bundle(model, point) if point.ours else file(model, point, llama)
    exact = reference_bundle(model)
    with opened(path, threads) as scorer, opened(exact, threads) as reference:
        kept = model.folder / "logits" / Bundle.open(exact, verify=False).manifest.weights_id[-16:]
        known = replace(reference, logits=remembered(reference.logits, kept))
        found = evaluate_scorers([scorer, known], model.text())
    if found.apart is None or found.reference is None:
        raise ValueError("an evaluation of two models compares them")
    return {
        "ours": point.ours,
        "perplexity": found.model.perplexity,
        "kl": {key: value for key, value in asdict(found.apart).items() if key != "same_top1"},
        "same_top1": found.apart.same_top1,
        "weight_bytes": found.model.weight_bytes,
        "bits_per_weight": found.model.bits_per_weight,
        "stored_bytes": stored_bytes(path),
        "program": found.model.program,
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python bench/quality.py --model {model.key} --only {point.name}",
        "reference": {
            "perplexity": found.reference.perplexity,
            "weight_bytes": found.reference.weight_bytes,
            "stored_bytes": stored_bytes(exact),
            "context": found.context,
            "windows": found.windows,
            "scored_tokens": found.scored_tokens,
        },
    }


def opened(path: Path, threads: int) -> AbstractContextManager[Scorer]:
    """A model in memory, with windows of the usual length."""
    return open_scorer(path, context=CONTEXT, threads=threads, trust=False, progress=None)


def bundle(model: Model, point: Point) -> Path:
    """What edgewise makes of the model for the CPU."""
    options = ("--calibrate",) if point.option == CALIBRATED else ()
    path = model.folder / point.name
    return our_bundle(model.checkpoint(), path, point.kind, "--context", str(CONTEXT), *options)


def reference_bundle(model: Model) -> Path:
    """The model in float32, compiled once: its logits are remembered whatever compiles it."""
    path = model.folder / REFERENCE
    return path if is_bundle(path) else bundle(model, Point(REFERENCE, ours=True))


def file(model: Model, point: Point, llama: Path | None) -> Path:
    """What llama.cpp's quantizer makes of the model."""
    path = model.folder / f"{point.name}.gguf"
    if not path.exists():
        if llama is None:
            raise SystemExit(f"{point.name} needs --llama VENV, with llama-cpp-python in it")
        quantize(llama, model.gguf(), path, point.kind, pure=point.option == PURE)
    return path


def stored_bytes(path: Path) -> int:
    """Of a file, or of everything in a bundle."""
    return Bundle.open(path, verify=False).total_bytes if path.is_dir() else path.stat().st_size


def remembered(
    logits: Callable[[Sequence[int]], Logits], folder: Path
) -> Callable[[Sequence[int]], Logits]:
    """The same function, which writes what it computed to ``folder`` and reads it there again.

    A reference is compared with every point, and computes longer than most of them.
    """

    def read(ids: Sequence[int]) -> Logits:
        name = hashlib.sha256(np.array(ids, np.int64).tobytes()).hexdigest()[:32]
        kept = folder / name
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with new_folder(kept) as made:
                np.save(made / "logits.npy", logits(ids))
        rows: Logits = np.load(kept / "logits.npy", mmap_mode="r")
        return rows

    return read
