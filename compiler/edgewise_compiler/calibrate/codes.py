"""Codes chosen for what a model does with a text, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.calibrate.interpret import Tokens, forward
from edgewise_compiler.calibrate.text import NEUTRAL, calibration_tokens
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats, whole_groups
from edgewise_compiler.quantize.gptq import gptq
from edgewise_compiler.quantize.search import search
from edgewise_compiler.weights.params import naming
from edgewise_runtime.format.abi import GROUP


def read_calibration(checkpoint: Checkpoint, text: str | Path | bool) -> NDArray[np.int64]:
    """A text in the checkpoint's tokens, ``[texts, length]``.

    Args:
        text: a file; True for the neutral text, False for none.

    Raises:
        InputError, StorageError, CheckpointError: as `text.calibration_tokens` does.
    """
    if text is False:
        return np.zeros((0, 0), np.int64)
    path = NEUTRAL if text is True else Path(text)
    return calibration_tokens(
        checkpoint.files["tokenizer.json"], path, context=checkpoint.model.context
    )


def calibrated_codes(
    checkpoint: Checkpoint, schemes: Schemes, tokens: Tokens, progress: Callable[[int, int], None]
) -> dict[str, CodedRows]:
    """Codes of every tensor that a linear multiplies with, columns padded to 32.

    GPTQ chooses them for what a linear is given where all weights are exact. A table of tokens that
    is the head too is searched with second moments instead: GPTQ moves weights away from their
    values where only their products count, and a table's rows are used as they are.

    Args:
        tokens: ids ``[texts, length]``; of no texts nothing comes.
        progress: told how many linears of how many are done.

    Returns:
        By the name of the checkpoint's tensor; none where its scheme has nothing to choose.

    Raises:
        CheckpointError: a weight that is not finite, or beyond the scheme.
        CompileError: moments that GPTQ cannot use.
        UnsupportedError: an operation that `interpret` does not have.
    """
    codes: dict[str, CodedRows] = {}
    if not len(tokens) or all(scheme.levels is None for scheme in schemes.values()):
        return codes
    family, cfg, reader = checkpoint.family, checkpoint.model, checkpoint.weights
    total = sum(isinstance(spec, LinearSpec) for spec in family.params(cfg))
    embed = build_graphs(family, cfg, linear_widths(family.params(cfg)), ())["embed"]
    tables = {name for node in embed.nodes for name in node.params}
    done: set[str] = set()

    def observe(spec: LinearSpec, x: Floats) -> None:
        progress(len(done), total)
        done.add(spec.name)
        levels = schemes[spec.name].levels
        if levels is None:
            return
        moments = np.pad((x.T @ x).astype(np.float64) / len(x), (0, -spec.k % GROUP))
        for name in spec.sources:
            rows = whole_groups(reader.read(name))
            with naming(spec, name):
                if spec.name in tables:
                    codes[name] = search(rows, np.diagonal(moments).astype(np.float32), levels)
                else:
                    codes[name] = gptq(rows, moments, levels)

    forward(family, cfg, reader, tokens, observe=observe, logits=False)
    progress(total, total)
    return codes
