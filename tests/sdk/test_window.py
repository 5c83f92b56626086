"""Where a conversation is too long, its oldest turns go, whole, and no more of them than must."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.window import fit_messages
from edgewise_runtime.errors import InputError
from edgewise_runtime.text.template import Message

ROLES = {"s": "system", "d": "developer", "u": "user", "a": "assistant", "t": "tool"}


def said(roles: str) -> list[Message]:
    """Messages of the roles that letters stand for, each one telling which it is."""
    return [{"role": ROLES[letter], "content": str(i)} for i, letter in enumerate(roles)]


def places(messages: Sequence[Message]) -> list[int]:
    return [int(message["content"]) for message in messages]


@pytest.mark.parametrize(
    ("roles", "limit", "kept", "turns"),
    [
        ("u", 1, [0], 0),
        ("sua", 3, [0, 1, 2], 0),
        ("uauau", 4, [2, 3, 4], 1),
        ("uauau", 3, [2, 3, 4], 1),
        ("uauau", 2, [4], 2),
        ("suauau", 2, [0, 5], 2),
        ("sduauau", 5, [0, 1, 4, 5, 6], 1),
        ("uatatauau", 8, [6, 7, 8], 1),  # calls of tools and their results go with their turn
        ("suatat", 6, [0, 1, 2, 3, 4, 5], 0),
        ("uauatat", 6, [2, 3, 4, 5, 6], 1),
        ("uuu", 1, [2], 2),
        ("usauau", 5, [3, 4, 5], 1),  # a later system message belongs to its turn
        ("saauau", 4, [0, 3, 4, 5], 1),  # a greeting is a turn of its own
        ("saauau", 3, [0, 5], 2),
        ("sau", 2, [0, 2], 1),
    ],
)
def test_the_oldest_turns_go_first(roles: str, limit: int, kept: list[int], turns: int) -> None:
    fitted = fit_messages(said(roles), len, limit)
    assert places(fitted.messages) == kept
    assert fitted.dropped_turns == turns
    assert fitted.dropped_messages == len(roles) - len(kept)


@pytest.mark.parametrize(
    ("roles", "limit", "least"),
    [("u", 0, 1), ("su", 1, 2), ("uauat", 2, 3), ("s", 0, 1), ("sss", 2, 3), ("saat", 3, 4)],
)
def test_what_has_to_stay_and_does_not_fit_is_refused_by_its_size(
    roles: str, limit: int, least: int
) -> None:
    with pytest.raises(InputError, match=rf"have {least} tokens.*for {limit}\.") as caught:
        fit_messages(said(roles), len, limit)
    assert caught.value.code == "input.context"


def test_messages_that_are_none_are_for_the_counting_to_refuse() -> None:
    def refuse(messages: Sequence[Message]) -> int:
        raise InputError("no messages", code="input.messages")

    with pytest.raises(InputError, match="no messages"):
        fit_messages(["hello"], refuse, 10)  # type: ignore[list-item]


conversations = st.lists(
    st.tuples(st.sampled_from("suuuaaat"), st.integers(0, 50)), min_size=1, max_size=40
)


@given(conversations, st.integers(0, 600))
def test_as_many_turns_stay_as_fit(conversation: list[tuple[str, int]], limit: int) -> None:
    messages = said("".join(role for role, _ in conversation))
    sizes = [size for _, size in conversation]
    calls = 0

    def count(kept: Sequence[Message]) -> int:
        nonlocal calls
        calls += 1
        return 3 + sum(sizes[place] for place in places(kept))

    roles = [message["role"] for message in messages]
    first = next((i for i, role in enumerate(roles) if role != "system"), len(roles))
    users = [i for i in range(first, len(roles)) if roles[i] == "user"]
    begins = sorted({first, *users} - {len(roles)}) or [first]
    ways = [[*range(first), *range(begin, len(roles))] for begin in begins]
    enough = [way for way in ways if 3 + sum(sizes[place] for place in way) <= limit]
    if enough:
        fitted = fit_messages(messages, count, limit)
        assert places(fitted.messages) == enough[0]
        assert fitted.dropped_turns == ways.index(enough[0])
        assert fitted.dropped_messages == len(messages) - len(enough[0])
    else:
        with pytest.raises(InputError):
            fit_messages(messages, count, limit)
    assert calls <= 2 + ceil(log2(len(begins)))


@given(conversations, st.data())
def test_what_is_kept_fits_even_where_counts_are_odd(
    conversation: list[tuple[str, int]], data: st.DataObject
) -> None:
    counted: dict[int, int] = {}

    def count(kept: Sequence[Message]) -> int:
        return counted.setdefault(len(kept), data.draw(st.integers(0, 100)))

    messages = said("".join(role for role, _ in conversation))
    try:
        fitted = fit_messages(messages, count, 50)
    except InputError:
        assert all(tokens > 50 for tokens in counted.values())
    else:
        assert counted[len(fitted.messages)] <= 50


def test_a_thousand_turns_take_a_dozen_counts() -> None:
    calls = []

    def count(kept: Sequence[Message]) -> int:
        calls.append(len(kept))
        return len(kept)

    fitted = fit_messages(said("s" + "ua" * 1000), count, 101)
    assert len(fitted.messages) == 101
    assert fitted.dropped_turns == 950
    assert len(calls) <= 12
