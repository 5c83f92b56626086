"""The grids that a plan's launches have, at the values that step symbols were last given."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Plan

MAX_GRIDS = 256
"""Symbol values whose grids a plan remembers."""

Grid = tuple[int, int, int]


class Grids:
    """A plan's distinct grids.

    Args:
        load: values of the load symbols.

    Attributes:
        places: of each of the plan's steps, which of the grids it has.
    """

    def __init__(self, plan: Plan, load: Mapping[str, int]) -> None:
        self._load = plan.resolve(load)
        self._symbols = [
            (symbol.name, STEP_SYMBOLS.index(symbol.name), symbol.min, symbol.max)
            for symbol in plan.symbols
            if symbol.kind == "step" and symbol.name in STEP_SYMBOLS
        ]
        distinct = dict.fromkeys(step.grid for step in plan.steps)
        self._expressions = tuple(distinct)
        found = {grid: place for place, grid in enumerate(distinct)}
        self.places = tuple(found[step.grid] for step in plan.steps)
        self._known: dict[tuple[int, ...], tuple[Grid, ...]] = {}

    def at(self, step: tuple[int, ...]) -> tuple[Grid, ...]:
        """Workgroups of each distinct grid at the values that ``step`` holds.

        A value beyond what its symbol can be counts as the nearest it can be.
        """
        values = tuple(min(max(step[at], low), high) for _, at, low, high in self._symbols)
        found = self._known.get(values)
        if found is None:
            named = zip((symbol[0] for symbol in self._symbols), values, strict=True)
            symbols = self._load | dict(named)
            found = tuple(
                (ex.evaluate(x, symbols), ex.evaluate(y, symbols), ex.evaluate(z, symbols))
                for x, y, z in self._expressions
            )
            if len(self._known) >= MAX_GRIDS:
                self._known.clear()
            self._known[values] = found
        return found
