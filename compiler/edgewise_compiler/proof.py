"""What every program of a bundle must answer to a few tokens: ``proof.json``.

It is computed from the weights as they lie in the ``gpu`` layout, by the interpreter, which shares
nothing with kernels and plans: a shader that a driver gets wrong gives something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.calibrate.interpret import forward
from edgewise_compiler.calibrate.text import calibration_tokens
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.operations import Softcap
from edgewise_compiler.job import Job
from edgewise_compiler.layouts.order import linear_widths, ordered_bias
from edgewise_compiler.layouts.rows import GPU, row_values
from edgewise_compiler.layouts.schemes import linears_of
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.phases import PROVING
from edgewise_compiler.quantize.codes import Floats
from edgewise_runtime.errors import CompileError, InputError, UnsupportedError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.manifest import TensorEntry
from edgewise_runtime.format.proof import UNIT, Proof

LENGTH = PAGE_TOKENS + 5
"""Tokens: more than a page has, and than the plans for few rows take."""

IDS = 64
"""Token ids whose logits are kept."""

GOLDEN_RATIO = 0.6180339887498949


def make_proof(job: Job, entries: Mapping[str, TensorEntry]) -> Proof | None:
    """The proof of the bundle that is being built.

    Args:
        entries: where the tensors of the ``gpu`` layout lie, which must have been written.

    Returns:
        None where there can be none: an operation that NumPy does not have here, a context of fewer
        tokens, a tokenizer that makes hardly any of a text.

    Raises:
        CheckpointError: the tokenizer cannot encode a text.
    """
    checkpoint, cfg = job.checkpoint, job.cfg
    if job.options.bounds.context <= LENGTH:
        return None
    sizes = {
        spec.name: sum(made.bytes for made in GPU.tensors(job.schemes[spec.name], spec).values())
        for spec in linears_of(job.params)
    }
    done, total = 0, sum(sizes.values())
    job.tell(PROVING, 0, total)

    def observe(spec: LinearSpec, x: Floats) -> None:
        nonlocal done
        job.tell(PROVING, done, total)
        done += sizes[spec.name]

    # Of one linear at a time: what is mapped counts as memory of this process.
    @lru_cache(maxsize=1)
    def tensors_of(spec: LinearSpec) -> dict[str, NDArray[Any]]:
        names = GPU.tensors(job.schemes[spec.name], spec)
        return {name: _mapped(job, entries[name]) for name in names}

    def stored(spec: LinearSpec, first: int, stop: int) -> Floats:
        return row_values(job.schemes[spec.name], spec, first, stop, tensors_of(spec))

    family, reader = checkpoint.family, checkpoint.weights
    try:
        tokens = calibration_tokens(checkpoint.files["tokenizer.json"])[:1, :LENGTH]
        h = forward(family, cfg, reader, tokens, logits=False, stored=stored, observe=observe)
    except (InputError, UnsupportedError):
        return None
    finally:
        job.tell(PROVING, total, total)
    head, caps = _head(job)
    # Far from each other and from any power of two: whatever a tile gets wrong, some are in it.
    ids = np.unique((np.arange(IDS) * GOLDEN_RATIO % 1 * cfg.vocab).astype(np.int64)).tolist()
    rows = np.concatenate([stored(head, i, i + 1)[:, : head.k] for i in ids])
    logits = h[:, : head.k] @ rows.T
    bias = ordered_bias(head, reader)
    if bias is not None:
        logits += bias[ids]
    for cap in caps:
        logits = np.tanh(logits / np.float32(cap)) * np.float32(cap)
    thousandths = np.rint(logits.astype(np.float64) * UNIT).astype(np.int64)
    return Proof(tuple(tokens[0].tolist()), tuple(ids), tuple(map(tuple, thousandths.tolist())))


def _head(job: Job) -> tuple[LinearSpec, tuple[float, ...]]:
    """The linear that makes logits, and the softcaps that these go through."""
    graphs = build_graphs(job.checkpoint.family, job.cfg, linear_widths(job.params), ())
    nodes = graphs["head"].nodes
    caps = tuple(node.op.cap for node in nodes if isinstance(node.op, Softcap))
    name = nodes[-1 - len(caps)].params[0]
    for spec in job.params:
        if spec.name == name and isinstance(spec, LinearSpec):
            return spec, caps
    raise CompileError(f"The head {name!r} is no linear.")


def _mapped(job: Job, entry: TensorEntry) -> NDArray[Any]:
    path = job.folder / entry.file
    return np.memmap(path, entry.dtype, "r", offset=entry.offset, shape=entry.shape)
