"""docs/scaling.md has the tables that bench/scaling.py computes, of figures that were measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from scaling import QWEN3, TABLES, Traffic, hits, rate

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_what_is_computed(table: Callable[[], Iterable[str]]) -> None:
    assert "\n".join(table()) in (DOCS / "scaling.md").read_text("utf-8")


def test_the_figures_are_those_of_the_benchmarks() -> None:
    measured = (DOCS / "benchmarks.md").read_text("utf-8")
    assert "| 1,530 tokens never seen, s to the first token | 3.85 |" in measured
    assert "| 8 clients | 299 / 123 |" in measured
    assert pytest.approx(1530 / 3.85) == QWEN3.prefill
    assert QWEN3.decode == 299
    assert QWEN3.prefixes(1500) == 12


@pytest.mark.parametrize("machines", [1, 2, 4, 8])
@pytest.mark.parametrize("prefixes", [1, 12, 13, 48, 1000])
def test_routing_never_loses_and_gains_nothing_where_all_have_room(
    prefixes: int, machines: int
) -> None:
    traffic = Traffic(prefixes=prefixes)
    found = [hits(QWEN3, traffic, machines, routed=way) for way in (False, True)]
    rates = [rate(QWEN3, traffic, machines, routed=way) for way in (False, True)]
    assert 0 < found[0] <= found[1] <= 1
    assert rates[0] <= rates[1]
    if machines == 1 or prefixes <= 12:
        assert rates[0] == rates[1]
    assert found[1] == min(1, machines * 12 / prefixes)
