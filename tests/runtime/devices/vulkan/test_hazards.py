"""Which launches wait for which."""

from __future__ import annotations

import random

import pytest

from edgewise_runtime.devices.vulkan.hazards import Range, Touched, barriers


def launch(reads: str = "", writes: str = "") -> Touched:
    """One over whole buffers of 16 bytes, or over pieces of them such as ``a:0-8``."""

    def pieces(text: str) -> tuple[Range, ...]:
        found = []
        for item in text.split():
            name, _, piece = item.partition(":")
            start, _, end = (piece or "0-16").partition("-")
            found.append((name, int(start), int(end)))
        return tuple(found)

    return Touched(pieces(reads), pieces(writes))


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (launch(writes="a"), launch(reads="a"), True),
        (launch(writes="a"), launch(writes="a"), True),
        (launch(reads="a"), launch(writes="a"), True),
        (launch(reads="a"), launch(reads="a"), False),
        (launch(writes="a"), launch(reads="b"), False),
        (launch("a", "b"), launch("a", "c"), False),
        (launch(writes="a:0-8"), launch(reads="a:8-16"), False),
        (launch(writes="a:0-9"), launch(reads="a:8-16"), True),
        (launch(reads="a:8-16"), launch(writes="a:0-9"), True),
    ],
)
def test_two_launches_are_ordered_where_one_writes_what_the_other_touches(
    first: Touched, second: Touched, waits: bool
) -> None:
    assert barriers([first, second]) == [False, waits]


def test_a_barrier_orders_all_before_it_with_all_after_it() -> None:
    launches = [
        launch(writes="a"),
        launch(writes="b"),
        launch("a", "c"),  # waits for the first, and so the second is done, too
        launch("b", "d"),
        launch("c d", "a"),
        launch("b"),
    ]
    assert barriers(launches) == [False, False, True, False, True, False]


def test_nothing_needs_no_barrier() -> None:
    assert barriers([]) == []


def test_every_pair_that_depends_has_a_barrier_between_them() -> None:
    rng = random.Random(71)
    for _ in range(200):
        launches = [
            launch(
                " ".join(rng.sample("abcdef", rng.randrange(3))),
                " ".join(rng.sample("abcdef", rng.randrange(1, 3))),
            )
            for _ in range(rng.randrange(2, 12))
        ]
        waits = barriers(launches)
        for later, one in enumerate(launches):
            for earlier, other in enumerate(launches[:later]):
                touched = {*one.reads, *one.writes}
                if touched & {*other.writes} or {*one.writes} & {*other.reads}:
                    assert any(waits[earlier + 1 : later + 1])
        # And none is there for nothing: each launch behind one depends on what came after the last.
        since = 0
        for at, wait in enumerate(waits):
            if wait:
                assert barriers(launches[since : at + 1])[-1]
                since = at
