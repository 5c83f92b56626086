"""Functions that are tools, with every type hint and docstring that transformers can describe."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Optional, Union


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Mixed(Enum):
    ONE = 1
    TEXT = "x"


def forecast(city: str, days: int = 3, exact: bool = False) -> str:
    """Tell the weather
    of some days.

    Args:
        city: Where, for example
            Zürich: a city
            in Switzerland.

        days: How many days.
        exact: Whether to be exact (choices: [true, false])

    Returns:
        What the weather
        will be.

    Raises:
        ValueError: never.
    """
    return f"{city} {days} {exact}"


def everything(
    a: list[int],
    b: Optional[str],  # noqa: UP045
    c: Union[int, float],  # noqa: UP007
    d: Literal["x", "y"],
    e: dict[str, list[float]],
    f: tuple[int, str],
    g: Any,
    h: list,  # type: ignore[type-arg]
    i: dict,  # type: ignore[type-arg]
    j: int | str | None = None,
    k: list[int] | None = None,
    l: list[int] | dict[str, int] | None = None,
    m: Unit = Unit.CELSIUS,
    n: Literal[1, "a", None] = 1,
    o: Mixed = Mixed.ONE,
    p: Literal["q"] | None = None,
    q: None = None,
) -> None:
    """Take everything.

    Args:
        a: A
        b: B
        c: C
        d: D
        e: E
        f: F
        g: G
        h: H
        i: I
        j: J
        k: K
        l: L
        m: M
        n: N
        o: O
        p: P
        q: Q
    """


class Counter:
    def add(self, x: float) -> dict[str, int]:
        """Add to it. Returns: nothing, in the middle of a line.

        Args:
            x: A number (choices: [1.5, 2.5])
        """
        return {}


def one_line(x: int):  # type: ignore[no-untyped-def]
    """One line.

    Args:
        x: y"""


def oddly_indented(x: int, y: str, z: bool) -> int:
    """
    Summary

      with indentation.
    Args:
      x: first
         more: of it
      y: second (Choices: ["tea ", "coffee"])
    and not deeper
      z: third
    Returns:
        int: a number
    """
    return 0


def nothing() -> None:
    """Do nothing."""


FUNCTIONS = {
    "forecast": forecast,
    "everything": everything,
    "bound": Counter().add,
    "method": Counter.add,
    "one_line": one_line,
    "oddly_indented": oddly_indented,
    "nothing": nothing,
}
