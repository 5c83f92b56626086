"""Tickets are good once, for a short time, and there are not many."""

from __future__ import annotations

import pytest

from edgewise.server.socket.tickets import PREFIX, Tickets
from edgewise_runtime.errors import EngineError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_is_good_once() -> None:
    tickets = Tickets()
    ticket = tickets.issue()
    assert ticket.startswith(PREFIX)
    assert tickets.redeem(["edgewise.v1", ticket])
    assert not tickets.redeem(["edgewise.v1", ticket])


def test_a_ticket_is_good_for_a_while() -> None:
    clock = Clock()
    tickets = Tickets(seconds=30, clock=clock)
    early, late = tickets.issue(), tickets.issue()
    clock.now += 29.9
    assert tickets.redeem([early])
    clock.now += 0.1
    assert not tickets.redeem([late])


@pytest.mark.parametrize("shown", ["", PREFIX, PREFIX + "x" * 43, PREFIX + "\udcff"])
def test_what_nobody_was_given_is_no_ticket(shown: str) -> None:
    tickets = Tickets()
    ticket = tickets.issue()
    assert not tickets.redeem([shown])
    assert not tickets.redeem([ticket.removeprefix(PREFIX), ticket.upper(), ticket + "x"])
    assert not tickets.redeem([])
    assert tickets.redeem([ticket])


def test_one_handshake_shows_one_ticket() -> None:
    """Many guesses at once are one guess."""
    tickets = Tickets()
    ticket = tickets.issue()
    assert not tickets.redeem([PREFIX + "x" * 43, ticket])
    assert tickets.redeem([ticket])


def test_tickets_that_wait_are_bounded_and_make_room_when_they_end() -> None:
    clock = Clock()
    tickets = Tickets(most=2, clock=clock)
    used, _ = tickets.issue(), tickets.issue()
    with pytest.raises(EngineError) as error:
        tickets.issue()
    assert error.value.code == "engine.busy"
    assert tickets.redeem([used])
    tickets.issue()
    clock.now += 60
    assert [tickets.issue() for _ in range(2)]
