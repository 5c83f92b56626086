"""What the kernels of a mixture of experts are made for, on every machine.

A row goes through some of the experts: pair ``row * chosen + i`` is the row with the i-th of them.
Where several rows go to an expert at once, pairs are put in order by their experts, so that one
expert's weights serve all of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.kernels.ranges import Range
from edgewise_runtime.format.abi import PANEL


@dataclass(frozen=True)
class RouteSpec:
    """The choice of experts for each row.

    Attributes:
        rows: the most rows of x.
        inputs: columns of x.
        experts: how many there are.
        chosen: how many of them a row goes through.
        normalize: the softmax is over the chosen ones; else over all.
        shared: the last logit is that of a gate, whose sigmoid is one more weight.
        bias: whether logits have one.
    """

    rows: int
    inputs: int
    experts: int
    chosen: int
    normalize: bool
    shared: bool
    bias: bool

    @property
    def logits(self) -> int:
        """Logits of a row."""
        return self.experts + self.shared

    @property
    def columns(self) -> int:
        """Columns of the router's matrix, padding included."""
        return -(-self.logits // PANEL) * PANEL

    @property
    def weights(self) -> int:
        """Weights of a row."""
        return self.chosen + self.shared

    @property
    def router(self) -> tuple[Arg, ...]:
        """The router's tensors as kernels see them."""
        weight = Arg("weight", "float32", (self.inputs, self.columns))
        return (weight, Arg("bias", "float32", (self.columns,))) if self.bias else (weight,)

    @property
    def name(self) -> str:
        """The part of a kernel's name that says all of it."""
        flags = "n" * self.normalize + "s" * self.shared + "b" * self.bias
        sizes = f"{self.experts}of{self.inputs}_k{self.chosen}_x{self.rows}"
        return f"{sizes}_{flags}" if flags else sizes


@dataclass(frozen=True, kw_only=True)
class ExpertsSpec(MatmulSpec):
    """A linear of experts, of which each pair has one: ``outputs`` are those of one expert.

    Attributes:
        experts: how many have their weights in the buffer.
        chosen: pairs of a row.
        each: x has a row for each pair; else pairs of a row share one.
    """

    experts: int
    chosen: int
    each: bool

    @property
    def pairs(self) -> int:
        """The most pairs."""
        return self.rows * self.chosen

    @property
    def sources(self) -> int:
        """The most rows of x."""
        return self.pairs if self.each else self.rows

    @property
    def name(self) -> str:
        """The part of a kernel's name that says all of it."""
        shape = f"{self.outputs}x{self.inputs}_n{self.rows}"
        which = f"{'e' if self.each else 'x'}{self.experts}k{self.chosen}"
        return f"{self.scheme}_{self.epilogue}_{shape}_{which}" + ("_b" if self.bias else "")


def ids_arg(rows: int, chosen: int, experts: int) -> Arg:
    """The experts of each row, by their weights."""
    return Arg("ids", "int32", (rows, chosen), (Range(0, experts - 1),))


def order_arg(pairs: int) -> Arg:
    """Pairs by their experts, those of one in the order of the rows."""
    return Arg("order", "int32", (pairs,), (Range(0, pairs - 1),))
