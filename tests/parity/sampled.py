"""Which of the parity cases the landing suite takes; the others are marked `full`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def sampled(
    every: Iterable[Any], landing: Collection[Any], name: Callable[[Any], str] = str
) -> list[Any]:
    """Parameters of a test: ``every`` value, of which the landing suite takes those in ``landing``.

    Values that are tuples are several parameters.
    """
    values = list(every)
    if unknown := [value for value in landing if value not in values]:
        raise ValueError(f"{unknown} are none of the cases")
    return [
        pytest.param(
            *(value if type(value) is tuple else (value,)),
            id="-".join(value) if type(value) is tuple else name(value),
            marks=[] if value in landing else [pytest.mark.full],
        )
        for value in values
    ]
