"""Numbers as Prometheus reads them: text format 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_LABEL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Sample:
    """A number and what it is of.

    Attributes:
        suffix: after the name of its family: of a histogram ``_bucket``, ``_sum`` or ``_count``.
    """

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Exposed:
    """A family of numbers: one name, one kind, any labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


def text_of(families: Iterable[Exposed]) -> str:
    """The page; a family without samples has no line."""
    return "".join(f"{line}\n" for family in families if family.samples for line in _lines(family))


def bucket_samples(
    buckets: Mapping[str, float], total: float, labels: Mapping[str, str]
) -> Iterator[Sample]:
    """The samples of a histogram.

    Args:
        buckets: how many values lie at or below each bound, by the bound as text; ``+Inf`` last.
        total: of the values.
    """
    for bound, count in buckets.items():
        yield Sample(count, {**labels, "le": bound}, "_bucket")
    yield Sample(total, labels, "_sum")
    yield Sample(buckets["+Inf"], labels, "_count")


def _lines(family: Exposed) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help.translate(_IN_HELP)}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        labels = ",".join(
            f'{name}="{value.translate(_IN_LABEL)}"' for name, value in sample.labels.items()
        )
        shown = f"{{{labels}}}" if labels else ""
        yield f"{family.name}{sample.suffix}{shown} {_number(sample.value)}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
