"""Who holds which beginnings, and where a prompt goes."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.ray.prefixes import Balance, PrefixTable, page_keys, ranked
from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.keys import KeyChain, salted

ROOT = sha256(b"a model").digest()
PAGE = 4
PROMPTS = st.lists(st.integers(0, 2), max_size=30)
"""Of few tokens, so that many begin alike."""
NAMES = st.sampled_from(["a", "b", "c"])


def keys_of(prompt: list[int], root: bytes = ROOT) -> tuple[bytes, ...]:
    return page_keys(root, prompt, PAGE)


def table_of(*names: str, pages: int = 1000) -> PrefixTable[str]:
    table = PrefixTable[str](pages)
    table.only(names)
    return table


@given(prompt=PROMPTS, salt=st.sampled_from([(), ("tenant",)]))
def test_keys_are_those_of_the_engine(prompt: list[int], salt: tuple[str, ...]) -> None:
    root = salted(ROOT, salt)
    chain = KeyChain(root)
    pages = range(max(len(prompt) - 1, 0) // PAGE)
    assert list(keys_of(prompt, root)) == [
        chain.key(nth, prompt[nth * PAGE : (nth + 1) * PAGE]) for nth in pages
    ]


def test_tenants_share_no_key() -> None:
    prompt = list(range(20))
    ours, theirs = (keys_of(prompt, salted(ROOT, (name,))) for name in ("us", "them"))
    assert len(ours) == 4
    assert not set(ours) & set(theirs)


@given(
    moves=st.lists(st.tuples(NAMES, PROMPTS)),
    asked=PROMPTS,
    pages=st.integers(0, 12),
)
def test_a_replica_holds_what_came_to_it_last_within_its_pages(
    moves: list[tuple[str, list[int]]], asked: list[int], pages: int
) -> None:
    """Against a plain list of what was used, and in which order."""
    table = table_of("a", "b", "c", pages=pages)
    used: dict[str, list[bytes]] = {name: [] for name in "abc"}
    for name, prompt in moves:
        keys = keys_of(prompt)
        table.add(name, keys)
        kept = [key for key in used[name] if key not in keys]
        used[name] = [*kept, *reversed(keys)][-pages:] if pages else []
        assert table.size(name) == len(used[name]) <= pages
    keys = keys_of(asked)
    for name in "abc":
        there = [key in used[name] for key in keys]
        assert table.holds(name, keys) == sum(there)
        # Whoever holds a page holds those before it, whatever was forgotten.
        assert there == sorted(there, reverse=True)


@given(
    steps=st.lists(
        st.one_of(st.sets(NAMES), st.tuples(NAMES, PROMPTS), st.tuples(NAMES, st.integers(-1, 9)))
    )
)
def test_replicas_come_and_go_and_nothing_of_those_that_went_is_left(
    steps: list[set[str] | tuple[str, list[int]] | tuple[str, int]],
) -> None:
    table = table_of(pages=10)
    there: set[str] = set()
    for step in steps:
        match step:
            case set():
                gone = there - step
                there = step
                table.only(there)
                assert all(table.size(name) == 0 for name in gone)
            case (name, list(prompt)):
                table.add(name, keys_of(prompt))
            case (name, int(pages)):
                table.limit(name, pages)
                assert table.size(name) <= max(pages, 0)
        assert set(table) == there
        assert all(table.size(name) == 0 for name in {"a", "b", "c"} - there)


LOADS = st.dictionaries(NAMES, st.integers(0, 40), min_size=1)


@given(
    held=st.lists(st.tuples(NAMES, PROMPTS)),
    prompt=PROMPTS,
    loads=LOADS,
    factor=st.floats(1, 4),
    spare=st.integers(0, 8),
)
def test_a_prompt_goes_where_most_of_it_is_unless_that_one_is_too_busy(
    held: list[tuple[str, list[int]]],
    prompt: list[int],
    loads: dict[str, int],
    factor: float,
    spare: int,
) -> None:
    table, balance = table_of(*loads), Balance(factor, spare)
    for name, other in held:
        table.add(name, keys_of(other))
    keys = keys_of(prompt)
    found = ranked(table, keys, loads, balance)
    assert sorted(found) == sorted(loads)
    least = min(loads.values())
    free = [name for name in loads if loads[name] <= max(factor * least, least + spare)]
    assert loads[found[0]] <= balance.bound(least)
    assert table.holds(found[0], keys) == max(table.holds(name, keys) for name in free)
    # Who is too busy comes after all others, the busiest last.
    assert set(found[: len(free)]) == set(free)
    busy = [loads[name] for name in found[len(free) :]]
    assert busy == sorted(busy)


def test_a_conversation_stays_where_it_is_and_a_shared_beginning_spreads() -> None:
    table, system = table_of("a", "b"), [7] * 16
    idle = {"a": 0, "b": 0}
    first = ranked(table, keys_of([*system, *[1] * 9]), idle, Balance())[0]
    table.add(first, keys_of([*system, *[1] * 9]))
    other = "ab".replace(first, "")
    # The others' conversations begin alike: they go there, too, until it has too much to do.
    assert ranked(table, keys_of([*system, *[2] * 9]), idle, Balance())[0] == first
    busy = {first: 9, other: 2}
    spilled = ranked(table, keys_of([*system, *[2] * 9]), busy, Balance())[0]
    assert spilled == other
    table.add(other, keys_of([*system, *[2] * 9]))
    # Both hold the beginning now: each goes on where it was, though that one be busier.
    calm = {first: 4, other: 3}
    assert ranked(table, keys_of([*system, *[1] * 13]), calm, Balance())[0] == first
    assert ranked(table, keys_of([*system, *[2] * 13]), {first: 0, other: 2}, Balance())[0] == other
    assert ranked(table, keys_of([*system, *[3] * 9]), calm, Balance())[0] == other


@given(prompt=PROMPTS, order=st.permutations(["a", "b", "c"]))
def test_routers_that_know_nothing_send_what_begins_alike_to_one(
    prompt: list[int], order: list[str]
) -> None:
    begun = [*[1] * PAGE, *prompt]
    one = ranked(table_of("a", "b", "c"), keys_of([*begun, 1]), dict.fromkeys("abc", 0), Balance())
    two = ranked(table_of(*order), keys_of([*[1] * PAGE, 2, 2]), dict.fromkeys(order, 0), Balance())
    assert one == two


def test_different_beginnings_go_to_different_replicas() -> None:
    table, names = table_of("a", "b", "c"), dict.fromkeys("abc", 0)
    first = [ranked(table, keys_of([n] * 9), names, Balance())[0] for n in range(60)]
    assert all(first.count(name) >= 10 for name in "abc")


def test_there_is_none_where_there_is_no_replica() -> None:
    assert ranked(table_of(), keys_of([1] * 9), {}, Balance()) == []


@pytest.mark.parametrize(("factor", "spare"), [(0.5, 4), (float("nan"), 4), (2.0, -1)])
def test_a_balance_that_is_none_is_refused(factor: float, spare: int) -> None:
    with pytest.raises(InputError, match="busy") as error:
        Balance(factor, spare)
    assert error.value.code == "input.option"
