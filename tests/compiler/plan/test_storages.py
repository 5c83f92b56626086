"""Scratch storages: reused, never shared by two temporaries that live at the same time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgewise_compiler.plan.storages import ALIGN, Lifetime, assign_storages


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    spans = draw(
        st.lists(
            st.tuples(st.integers(0, 20), st.integers(0, 6), st.integers(1, 5000)), max_size=30
        )
    )
    return [Lifetime(f"t{i}", size, first, first + n) for i, (first, n, size) in enumerate(spans)]


@given(lifetimes())
def test_temporaries_alive_together_never_share_a_storage(lives: list[Lifetime]) -> None:
    storage_of, sizes = assign_storages(lives)
    for i, a in enumerate(lives):
        assert a.bytes <= sizes[storage_of[a.key]]
        for b in lives[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:
                assert storage_of[a.key] != storage_of[b.key]


@given(lifetimes())
def test_storages_are_aligned_and_no_more_than_the_temporaries(lives: list[Lifetime]) -> None:
    _, sizes = assign_storages(lives)
    assert len(sizes) <= len(lives)
    assert all(size % ALIGN == 0 for size in sizes)


def test_a_chain_of_steps_needs_two_storages() -> None:
    chain = [Lifetime(f"t{i}", 1024, i, i + 1) for i in range(50)]
    _, sizes = assign_storages(chain)
    assert sizes == [1024, 1024]
