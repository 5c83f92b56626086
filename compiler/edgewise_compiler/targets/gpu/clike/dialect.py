"""What languages that look like C have differently: a table for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Text(NamedTuple):
    """An expression as it is written, and its dtype.

    Attributes:
        text: an operand of any operator: what is no name, call or element stands in parentheses.
        dtype: lanes included, as TIR has it.
    """

    text: str
    dtype: str


Spelling = Callable[..., str]
"""How a language writes a neutral operation: from the dtype it returns and the arguments, each a
`Text`. The result is an operand, too."""


class Parameter(NamedTuple):
    """An argument of a kernel: a pointer to elements that it may write, or only read."""

    name: str
    dtype: str
    written: bool


@dataclass(frozen=True)
class Signature:
    """What a kernel's function says of itself.

    Attributes:
        entry: its name.
        parameters: in order.
        threads: of a workgroup.
        subgroups: whether it uses subgroup operations.
    """

    entry: str
    parameters: Sequence[Parameter]
    threads: int
    subgroups: bool


@dataclass(frozen=True)
class Dialect:
    """A language. All that is not said here, it has as C++ does: operators of numbers and of
    vectors, statements, arrays, and ``v.x`` for a lane.

    Attributes:
        language: as errors name it.
        types: dtypes, lanes included, as they are written; what is missing kernels cannot use.
        operations: of all neutral operations, see `kernels.gpu.operations.OPERATIONS`.
        functions: of TIR's own functions, by the names that TVM gives them (``sqrt``).
        binary: functions that stand for an operator, by the name of its TIR node and the dtype.
        casts: functions that convert, from a dtype to another; other scalars are ``(T)x``.
        splats, vectors: functions that make a vector of one scalar, and of one for each lane.
        literals: functions from a float literal to types without literals of their own.
        lanes: functions that give a lane by its number, for vectors without members.
        places: where a thread is: its workgroup in x and y, and itself, each an int.
        shared: what stands before a declaration of shared memory.
        head: the text of a kernel's declaration, to its opening brace.
        preludes: what the text begins with where a word of it occurs (a regular expression).
    """

    language: str
    types: Mapping[str, str]
    operations: Mapping[str, Spelling]
    functions: Mapping[str, str]
    binary: Mapping[tuple[str, str], str]
    casts: Mapping[tuple[str, str], str]
    splats: Mapping[str, str]
    vectors: Mapping[str, str]
    places: tuple[str, str, str]
    shared: str
    head: Callable[[Dialect, Signature], str]
    literals: Mapping[str, str] = field(default_factory=dict)
    lanes: Mapping[str, Callable[[str, int], str]] = field(default_factory=dict)
    preludes: Sequence[tuple[str, str]] = ()


def function(name: str) -> Spelling:
    """A function of the same arguments."""
    return lambda dtype, *arguments: f"{name}({', '.join(a.text for a in arguments)})"


def by_dtype(names: Mapping[str, str]) -> Spelling:
    """A function whose name follows from the dtype that it returns."""
    return lambda dtype, *arguments: function(names[dtype])(dtype, *arguments)


def conditional(dtype: str, condition: Text, a: Text, b: Text) -> str:
    """``c ? a : b``, which takes vectors, too."""
    return f"({condition.text} ? {a.text} : {b.text})"
