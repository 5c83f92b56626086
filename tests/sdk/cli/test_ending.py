"""Which signals end a command; that they do is in test_interrupting.py."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Thread

import pytest

from edgewise.cli.ending import ENDING, ended_by_signals


@pytest.fixture(autouse=True)
def as_in_a_shell() -> Iterator[None]:
    before = [signal.signal(one, signal.SIG_DFL) for one in ENDING]
    yield
    for one, handler in zip(ENDING, before, strict=True):
        signal.signal(one, handler)


def test_signals_that_end_a_command_are_taken_and_given_back() -> None:
    assert {one.name for one in ENDING} == {"SIGTERM", "SIGHUP"}
    with ended_by_signals():
        assert all(callable(signal.getsignal(one)) for one in ENDING)
    assert [signal.getsignal(one) for one in ENDING] == [signal.SIG_DFL] * 2


def test_what_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert callable(signal.getsignal(signal.SIGTERM))
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_in_another_thread_nothing_is_taken() -> None:
    taken: list[object] = []

    def inside() -> None:
        with ended_by_signals():
            taken.extend(signal.getsignal(one) for one in ENDING)

    thread = Thread(target=inside)
    thread.start()
    thread.join()
    assert taken == [signal.SIG_DFL] * 2
