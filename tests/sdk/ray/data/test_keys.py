"""What rows are known by, and that none is taken for another or counted twice."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgewise.ray.data.keys import DIGEST, Seen, among, digest_of, seed_of, sorted_digests


def test_a_row_is_known_by_its_key_whatever_else_is_in_it() -> None:
    one, other = {"id": 7, "prompt": "a"}, {"id": 7, "prompt": "b"}
    assert digest_of(one, "id") == digest_of(other, "id")
    assert digest_of(one, "id") != digest_of({"id": 8, "prompt": "a"}, "id")
    assert len(digest_of(one, "id")) == DIGEST


def test_the_number_seven_and_the_text_seven_are_two_keys() -> None:
    assert digest_of({"id": 7}, "id") != digest_of({"id": "7"}, "id")


def test_without_a_key_a_row_is_known_by_all_that_is_in_it_in_any_order() -> None:
    assert digest_of({"a": 1, "b": 2}, None) == digest_of({"b": 2, "a": 1}, None)
    assert digest_of({"a": 1, "b": 2}, None) != digest_of({"a": 1, "b": 3}, None)


def test_rows_whose_key_is_null_are_not_one_row() -> None:
    assert digest_of({"id": None, "a": 1}, "id") != digest_of({"id": None, "a": 2}, "id")


def test_bytes_dates_decimals_and_arrays_may_be_in_a_row() -> None:
    values = [
        b"\x00\xff",
        datetime.date(2026, 1, 2),
        datetime.date(2026, 1, 3),
        decimal.Decimal("1.50"),
        "1.50",
        np.arange(3),
        float("nan"),
    ]
    assert len({digest_of({"x": value}, None) for value in values}) == len(values)


def test_rows_have_seeds_of_their_own_that_another_seed_changes() -> None:
    digests = [digest_of({"id": at}, "id") for at in range(100)]
    seeds = {seed_of(0, one) for one in digests}
    assert len(seeds) == 100
    assert not seeds & {seed_of(1, one) for one in digests}
    assert all(0 <= one < 1 << 63 for one in seeds)
    assert seed_of(0, digests[0]) == seed_of(0, digests[0])


DIGESTS = st.lists(st.binary(min_size=DIGEST, max_size=DIGEST), max_size=40)


@given(known=DIGESTS, asked=DIGESTS)
def test_what_is_among_the_known_is_told_as_sets_tell_it(
    known: list[bytes], asked: list[bytes]
) -> None:
    asked = [*asked, *known[::2]]
    found = among(asked, sorted_digests(known))
    assert found.tolist() == [one in set(known) for one in asked]


def test_digests_that_end_in_zeros_are_told_apart() -> None:
    whole, short = b"a" * 15 + b"\0", b"a" * 14 + b"\0\0"
    assert among([whole, short], sorted_digests([whole])).tolist() == [True, False]


def test_of_digests_that_come_twice_the_first_is_new_however_many_come_between() -> None:
    digests = [digest_of({"id": at}, "id") for at in range(70_000)]
    seen = Seen(sorted_digests(digests[:10]))
    assert seen.new(digests[:12]).tolist() == [False] * 10 + [True] * 2
    assert seen.new([digests[12], digests[12]]).tolist() == [True, False]
    assert seen.new(digests[13:]).all()
    assert not seen.new(digests).any()
