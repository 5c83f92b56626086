"""A strict reader of Prometheus's text format 0.0.4, of its specification alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
VALUE = r"[+-]?Inf|NaN|[+-]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)")
_TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
_SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ({VALUE})")
_LABEL = re.compile(LABEL)
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass
class Read:
    """A family: its kind, and its samples by name and labels, in order."""

    kind: str = ""
    help: str = ""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def of(self, suffix: str = "", **labels: str) -> list[float]:
        """The values of the samples whose names end so and that have these labels."""
        return [
            value
            for (name, found), value in self.samples.items()
            if name.endswith(suffix) and labels.items() <= dict(found).items()
        ]


def read(page: str) -> dict[str, Read]:
    """The families of a page; AssertionError for what a scraper may refuse."""
    assert page == "" or page.endswith("\n")
    families: dict[str, Read] = {}
    name = ""
    for line in page.split("\n")[:-1]:
        if line.startswith("# HELP"):
            match = _HELP.fullmatch(line)
            assert match, line
            name = match[1]
            assert name not in families, f"{name} is there twice"
            families[name] = Read(help=match[2])
        elif line.startswith("#"):
            match = _TYPE.fullmatch(line)
            assert match, line
            assert match[1] == name
            assert not families[name].kind
            families[name].kind = match[2]
        else:
            _sample(families[name], name, line)
    for name, family in families.items():
        assert family.kind, name
        assert family.samples, name
        if family.kind == "histogram":
            _check_histogram(name, family)
    return families


def _sample(family: Read, name: str, line: str) -> None:
    match = _SAMPLE.fullmatch(line)
    assert match, line
    suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert match[1] in [f"{name}{suffix}" for suffix in suffixes], line
    found = _LABEL.findall(match[2] or "")
    assert len(dict(found)) == len(found), line
    labels = tuple((key, re.sub(r"\\.", lambda m: _ESCAPES[m[0]], text)) for key, text in found)
    assert (match[1], labels) not in family.samples, line
    value = float(match[match.lastindex or 0])
    assert family.kind == "gauge" or value >= 0 or match[1].endswith("_sum"), line
    family.samples[match[1], labels] = value


def _check_histogram(name: str, family: Read) -> None:
    """Buckets rise to +Inf, which is the count, for each set of labels."""
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for (sample, labels), value in family.samples.items():
        if sample.endswith("_bucket"):
            rest = tuple(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    assert series, name
    for labels, buckets in series.items():
        bounds, counts = zip(*buckets, strict=True)
        assert list(bounds) == sorted(set(bounds)), name
        assert bounds[-1] == float("inf"), name
        assert list(counts) == sorted(counts), name
        assert family.samples[f"{name}_count", labels] == counts[-1]
        assert (f"{name}_sum", labels) in family.samples
