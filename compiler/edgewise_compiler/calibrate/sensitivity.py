"""What rounding each linear costs, so that bits go where they matter.

A linear's error counts by what becomes of the residual stream: its block, up to the next addition
to the stream, is computed with that linear alone rounded, and the stream's relative change is the
cost. That ranks linears of all kinds on one scale, and takes a few passes over the model; the error
of a linear's own output ranks them worse (docs/decisions/0013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from edgewise_compiler.calibrate.codes import importance_of
from edgewise_compiler.calibrate.interpret import Step, Tokens, execute, ignore
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.nodes import Graph
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.schemes import linears_of
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats, RowSource, Scheme, whole_groups
from edgewise_compiler.quantize.search import search
from edgewise_compiler.weights.base import WeightReader

Costs = Mapping[str, Mapping[str, float]]
"""By linear and scheme: the mean over tokens of |change|^2 / |stream|^2."""


def sensitivities(
    checkpoint: Checkpoint,
    schemes: Sequence[Scheme],
    tokens: Tokens,
    progress: Callable[[int, int], None],
) -> Costs:
    """What storing each linear in each of ``schemes`` costs, all else exact.

    Args:
        schemes: those without levels take the nearest codes, others are searched.
        tokens: ids ``[texts, length]``.
        progress: told how many linears of how many are done.

    Raises:
        CheckpointError: a weight that is not finite, or beyond a scheme.
        UnsupportedError: an operation that `interpret` does not have.
    """
    family, cfg, reader = checkpoint.family, checkpoint.model, checkpoint.weights
    params = {spec.name: spec for spec in family.params(cfg)}
    graphs = build_graphs(family, cfg, linear_widths(tuple(params.values())), ())
    total = len(linears_of(params.values()))
    costs: dict[str, dict[str, float]] = {}
    given: dict[str, Floats] = {}

    def observe(spec: LinearSpec, x: Floats) -> None:
        given.update(dict.fromkeys(spec.sources, importance_of(x)))

    step = Step(params, reader, tokens, observe)
    x = np.zeros((0, 0), np.float32)
    for block in _blocks(graphs):
        exact = execute(block, step, x)
        for name in dict.fromkeys(name for node in block.nodes for name in node.params):
            spec = params[name]
            if not isinstance(spec, LinearSpec):
                continue
            progress(min(len(costs), total), total)
            found = costs.setdefault(name, dict.fromkeys((s.name for s in schemes), 0.0))
            for scheme in schemes:
                codes = {n: _rounded(reader, n, scheme, given.get(n)) for n in spec.sources}
                rounded = Step(params, reader, tokens, ignore, codes=codes)
                # A table that is looked up and is the head too costs both.
                found[scheme.name] += _change(exact, execute(block, rounded, x))
        x = exact
    progress(total, total)
    return costs


def _blocks(graphs: Mapping[str, Graph]) -> Iterator[Graph]:
    """A model's graphs in parts, between which nothing but one value is handed on."""
    for name in ("embed", "layers", "head"):
        graph = graphs[name]
        first = 0
        for i, node in enumerate(graph.nodes):
            later = {value.id for after in graph.nodes[i + 1 :] for value in after.inputs}
            made = {before.output.id for before in graph.nodes[: i + 1]}
            if node.output.name is not None and later & made <= {node.output.id}:
                yield graph.with_nodes(graph.nodes[first : i + 1])
                first = i + 1


def _rounded(
    reader: WeightReader, name: str, scheme: Scheme, importance: Floats | None
) -> RowSource:
    def rows(start: int, stop: int) -> CodedRows:
        values = whole_groups(reader.read(name, start, stop))
        if scheme.levels is None or importance is None:
            coded = scheme.quantize(values)
        else:
            coded = search(values, importance, scheme.levels)
        return CodedRows(scheme.dequantize(coded), {})

    return rows


def _change(exact: Floats, rounded: Floats) -> float:
    change = np.square(rounded - exact, dtype=np.float64).sum(axis=1)
    size = np.square(exact, dtype=np.float64).sum(axis=1)
    return float((change / np.maximum(size, np.finfo(np.float64).tiny)).mean())
