"""The system refuses something, or the process is killed: what was there stays, or what was to come
is there, whole; the error is one of ours; and nothing is left."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from tests.fault.conftest import Place
from tests.fault.faults import KILL_AFTER, KILL_BEFORE, KINDS, REFUSALS, Fault

pytestmark = pytest.mark.landing

SHARE = ["some", pytest.param("every", marks=pytest.mark.full)]
"""Of how many calls: in the landing suite of the first, the last and the one in the middle."""


def chosen(count: int, share: str) -> list[int]:
    """Which of so many calls, from 1."""
    if share == "every":
        return list(range(1, count + 1))
    return sorted({1, (count + 1) // 2, count} - {0})


def undisturbed(place: Place) -> dict[str, int]:
    """Do it without a fault; how many calls of each kind that takes."""
    outcome = place.trial.run(None)
    assert (outcome.signal, outcome.code, outcome.error) == (0, "", "")
    assert place.left() == []
    return dict(outcome.calls or {})


@pytest.mark.parametrize("share", SHARE)
def test_what_the_system_refuses_is_an_error_of_ours_and_leaves_nothing(
    place: Place, share: str
) -> None:
    calls = undisturbed(place)
    for kind in KINDS:
        for nth in chosen(calls[kind], share):
            for number in REFUSALS[kind]:
                fault = Fault(kind, nth, number)
                outcome = place.trial.run(fault)
                assert (outcome.signal, outcome.error) == (0, ""), fault
                place.check(place.folder)
                if place.left():
                    # Who may open nothing cannot clean up: the next one does.
                    assert kind == "open", fault
                    undisturbed(place)
    undisturbed(place)


KILLED_AT = ["rename", *(pytest.param(k, marks=pytest.mark.full) for k in ("write", "sync"))]


@pytest.mark.parametrize("kind", KILLED_AT)
def test_who_is_killed_leaves_what_was_or_what_is_to_come_and_the_next_one_cleans_up(
    place: Place, kind: str
) -> None:
    for nth in range(1, undisturbed(place)[kind] + 1):
        for when in (KILL_BEFORE, KILL_AFTER):
            fault = Fault(kind, nth, when)
            outcome = place.trial.run(fault)
            # Threads of the hub's library share some calls, so that there may be fewer this time.
            reached = outcome.calls is None or outcome.calls[kind] >= nth
            assert (outcome.signal == SIGKILL) is reached, fault
            place.check(place.folder)
    undisturbed(place)
