"""Samples are the same each time, and leave no value of a parameter out."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.sampling import choose, mark_cases

pytest_plugins = ["pytester"]

GRID = {f"test[{a}-{b}]": (a, b) for a, b in product(range(7), range(5))}


@pytest.mark.parametrize("one_in", [1, 2, 5, 1000])
def test_a_sample_holds_every_value_of_every_parameter(one_in: int) -> None:
    chosen = choose(GRID, one_in)
    assert {GRID[name][0] for name in chosen} == set(range(7))
    assert {GRID[name][1] for name in chosen} == set(range(5))


@pytest.mark.parametrize(("one_in", "size"), [(1, 35), (2, 18), (3, 12)])
def test_it_holds_one_case_in_so_many(one_in: int, size: int) -> None:
    assert len(choose(GRID, one_in)) == size


@pytest.mark.parametrize(("one_in", "size"), [(1, 35), (5, 7), (35, 1), (100, 1)])
def test_without_covering_it_is_no_more_than_that(one_in: int, size: int) -> None:
    assert len(choose(GRID, one_in, covering=False)) == size


def test_the_order_of_cases_decides_nothing() -> None:
    assert choose(GRID, 3) == choose(dict(reversed(GRID.items())), 3)


def test_tests_without_parameters_always_run() -> None:
    assert choose({"test": ()}, 9) == {"test"}


def test_cases_outside_the_sample_are_marked_full(pytester: pytest.Pytester) -> None:
    items = pytester.getitems(
        """
        import pytest

        @pytest.mark.sampled(one_in=4)
        @pytest.mark.parametrize("n", range(8))
        @pytest.mark.parametrize("m", range(4))
        def test_sampled(n, m): ...

        @pytest.mark.parametrize("n", range(8))
        def test_other(n): ...
        """
    )
    mark_cases(items)
    left = [item.name for item in items if not item.get_closest_marker("full")]
    assert 8 <= len([name for name in left if "sampled" in name]) < 16
    assert len([name for name in left if "other" in name]) == 8


def test_the_quick_suite_has_a_share_of_a_sample_and_as_many_cases_as_are_said(
    pytester: pytest.Pytester,
) -> None:
    items = pytester.getitems(
        """
        import pytest

        cases = pytest.mark.parametrize("n", range(40))

        @pytest.mark.sampled(one_in=2)
        @cases
        def test_sampled(n): ...

        @pytest.mark.quick(cases=3)
        @cases
        def test_few(n): ...

        @pytest.mark.quick(cases=3)
        @pytest.mark.sampled(one_in=2)
        @cases
        def test_few_of_a_sample(n): ...

        @pytest.mark.quick(cases=12)
        @cases
        def test_more(n): ...

        @pytest.mark.quick(cases=0)
        @cases
        def test_none(n): ...

        @cases
        def test_many(n): ...

        @pytest.mark.landing
        def test_long(): ...

        def test_other(): ...
        """
    )
    mark_cases(items)
    suites = {
        name: [item.name for item in items if not any(map(item.get_closest_marker, marks))]
        for name, marks in {"landing": ("full",), "quick": ("full", "landing")}.items()
    }

    def count(suite: str) -> dict[str, int]:
        return Counter(name.partition("[")[0] for name in suites[suite])

    few = {"test_few": 3, "test_few_of_a_sample": 3}
    assert count("quick") == {
        "test_sampled": 2,
        **few,
        "test_more": 12,
        "test_many": 4,
        "test_other": 1,
    }
    assert set(suites["quick"]) < set(suites["landing"])
    assert count("landing")["test_few_of_a_sample"] == count("landing")["test_sampled"] == 20
    assert count("landing")["test_few"] == 40
