"""Codes chosen for what a model does with a text, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgewise_compiler.calibrate.interpret import Tokens, forward
from edgewise_compiler.calibrate.text import NEUTRAL, calibration_tokens
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.schemes import Schemes, linears_of
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize.codes import (
    CodedRows,
    Floats,
    Levels,
    RowSource,
    Scheme,
    whole_groups,
)
from edgewise_compiler.quantize.gptq import gptq
from edgewise_compiler.quantize.search import search
from edgewise_compiler.quantize.split import AnyScheme, bands, chooses, scheme_of_rows
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.params import naming
from edgewise_runtime.format.abi import GROUP

SEARCH_LENGTH = 64
"""Tokens of each text that a search looks at. It wants to know how large columns are, not how they
hang together: 250 tokens of the neutral text do as well as all 3,500 (docs/decisions/0013)."""


@dataclass(frozen=True)
class Calibration:
    """What codes are chosen by.

    Attributes:
        tokens: ids ``[texts, length]``; none where codes are the nearest.
        gptq: also make up for errors by later columns, which takes minutes and the memory of a byte
            a weight; else only scales are searched, as weights are packed.
    """

    tokens: Tokens
    gptq: bool

    def __bytes__(self) -> bytes:
        """Different for different codes."""
        return self.tokens.tobytes() + (b"gptq" if self.gptq else b"")


def read_calibration(
    checkpoint: Checkpoint, text: str | Path | bool | None, *, searched: bool
) -> Calibration:
    """What codes of the checkpoint's weights are chosen by.

    Args:
        text: a file, or True for the neutral text, for GPTQ; False for the nearest codes; None for
            a search over a little of the neutral text where ``searched``, else the nearest codes.

    Raises:
        InputError, StorageError, CheckpointError: as `text.calibration_tokens` does.
    """
    if text is False or (text is None and not searched):
        return Calibration(np.zeros((0, 0), np.int64), gptq=False)
    path = NEUTRAL if text is None or text is True else Path(text)
    tokens = calibration_tokens(
        checkpoint.files["tokenizer.json"], path, context=checkpoint.model.context
    )
    if text is None:
        return Calibration(tokens[:, :SEARCH_LENGTH], gptq=False)
    return Calibration(tokens, gptq=True)


def calibrated_codes(
    checkpoint: Checkpoint,
    schemes: Schemes,
    calibration: Calibration,
    progress: Callable[[int, int], None],
) -> dict[str, RowSource]:
    """Codes of every tensor that a linear multiplies with, columns padded to 32.

    They are chosen for what a linear is given where all weights are exact. A table of tokens that
    is the head too is only searched: GPTQ moves weights away from their values where only their
    products count, and a table's rows are used as they are. So are linears of experts: GPTQ's codes
    would all be in memory at once, and a text shows an expert too few rows to tell how its many
    columns hang together. Experts that the text shows none are packed by their weights alone.

    Args:
        progress: told how many bytes of the checkpoint, of how many, are done.

    Returns:
        By the name of the checkpoint's tensor; none where its scheme has nothing to choose.

    Raises:
        CheckpointError: a weight that is not finite, or beyond the scheme.
        CompileError: moments that GPTQ cannot use.
        UnsupportedError: an operation that `interpret` does not have.
    """
    codes: dict[str, RowSource] = {}
    if not len(calibration.tokens) or not any(map(chooses, schemes.values())):
        return codes
    family, cfg, reader = checkpoint.family, checkpoint.model, checkpoint.weights
    sizes = {
        spec.name: sum(map(reader.size, spec.sources)) for spec in linears_of(family.params(cfg))
    }
    total = sum(sizes.values())
    embed = build_graphs(family, cfg, linear_widths(family.params(cfg)), ())["embed"]
    plain = {name for node in embed.nodes for name in node.params}
    plain |= {linear.name for linear in linears_of(family.params(cfg)) if linear.experts}
    done: set[str] = set()

    def observe(spec: LinearSpec, x: Floats) -> None:
        progress(sum(sizes[name] for name in done), total)
        done.add(spec.name)
        scheme = schemes[spec.name]
        if not chooses(scheme):
            return
        compensated = calibration.gptq and spec.name not in plain
        codes.update((_compensated if compensated else _searched)(reader, spec, x, scheme))

    forward(family, cfg, reader, calibration.tokens, observe=observe, logits=False)
    progress(total, total)
    return codes


def importance_of(x: Floats) -> Floats:
    """The mean square of each column of a linear's input, with zeros up to whole groups."""
    squares = np.square(x, dtype=np.float64).mean(axis=0).astype(np.float32)
    return np.pad(squares, (0, -x.shape[1] % GROUP))


def _chosen(scheme: Scheme, rows: Floats, by: Callable[[Floats, Levels], CodedRows]) -> CodedRows:
    return scheme.quantize(rows) if scheme.levels is None else by(rows, scheme.levels)


def _searched(
    reader: WeightReader, spec: LinearSpec, x: Floats, scheme: AnyScheme
) -> dict[str, RowSource]:
    """Codes that are searched when they are asked for."""
    importance = importance_of(x)

    def searched(rows: Floats, levels: Levels) -> CodedRows:
        return search(rows, importance, levels)

    def source(name: str) -> RowSource:
        def rows(start: int, stop: int) -> CodedRows:
            values = whole_groups(reader.read(name, start, stop))
            return _chosen(scheme_of_rows(scheme, start, stop), values, searched)

        return rows

    return {name: source(name) for name in spec.sources}


def _compensated(
    reader: WeightReader, spec: LinearSpec, x: Floats, scheme: AnyScheme
) -> dict[str, RowSource]:
    """Codes by GPTQ, made at once."""
    moments = np.pad((x.T @ x).astype(np.float64) / len(x), (0, -spec.k % GROUP))

    def compensated(rows: Floats, levels: Levels) -> CodedRows:
        return gptq(rows, moments, levels)

    def source(name: str) -> RowSource:
        made: dict[int, CodedRows] = {}
        for band in bands(scheme, reader.shape(name)[0]):
            values = whole_groups(reader.read(name, band.start, band.stop))
            with naming(spec, name):
                made[band.start] = _chosen(band.scheme, values, compensated)

        def rows(start: int, stop: int) -> CodedRows:
            scheme_of_rows(scheme, start, stop)  # there is one
            first = max(band for band in made if band <= start)
            return made[first].part(start - first, stop - first)

        return rows

    return {name: source(name) for name in spec.sources}
