"""Clients that read nothing: little waits for each, others do not notice, and they are closed."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from edgewise.server import patience
from edgewise.server.socket import transport
from tests.processes import eventually
from tests.sdk.server.load.conftest import Served
from tests.sdk.server.load.streams import APIS, LONG, ask, read

pytestmark = pytest.mark.landing

TOKENS = 1200
RECEIVE_BUFFER = 4096
HIGH_WATER = 64 << 10
"""Bytes above which nothing more is written to a connection: asyncio's own."""
PIECE = 64 << 10
"""Of one write at most."""
DRAWN = "generation_tokens_total"
LISTED = b'"token_logprobs"'


@pytest.mark.parametrize(
    "count", [pytest.param(8, id="8"), pytest.param(200, id="200", marks=pytest.mark.full)]
)
def test_they_hold_up_nobody_and_little_waits_for_each(served: Served, count: int) -> None:
    api = APIS["completions"]
    with closing(ask(served.url, api, 200)) as alone:
        text = read(alone, api, 1 << 24)
    before = served.metric(DRAWN)
    with ExitStack() as stack:
        for number in range(count):
            one = ask(served.url, (*LONG, api)[number % 4], TOKENS, RECEIVE_BUFFER)
            stack.enter_context(closing(one))
        with closing(ask(served.url, api, 200)) as beside:
            # Each token by itself, as log-probabilities are asked for: as many as alone.
            assert read(beside, api, 1 << 24).count(LISTED) == text.count(LISTED)
        # All of it is computed, read or not.
        assert eventually(lambda: served.metric(DRAWN) >= before + count * TOKENS + 200)
        assert eventually(lambda: sum(size > 0 for size in served.queued()) > count // 2)
        queued = served.queued()
        assert max(queued) <= HIGH_WATER + PIECE
    assert eventually(lambda: served.queued() == [])


@pytest.mark.parametrize(
    "count", [pytest.param(14, id="14"), pytest.param(200, id="200", marks=pytest.mark.full)]
)
def test_they_are_closed_whatever_they_asked_for(
    served: Served, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(patience, "STALL_SECONDS", 1.0)
    monkeypatch.setattr(transport, "STALL_SECONDS", 1.0)
    assert eventually(lambda: served.connections() == 0)
    with ExitStack() as stack:
        for number in range(count):
            # Some answers wait as a whole, others are longer than what may wait. A socket whose
            # answer has ended stays open: pings end that, which takes longer.
            api = list(APIS.values())[number % len(APIS)]
            short = number // len(APIS) % 2 == 0 and api is not APIS["socket"]
            one = ask(served.url, api, 40 if short else TOKENS, RECEIVE_BUFFER)
            stack.enter_context(closing(one))
        assert eventually(lambda: served.connections() == 0)
    assert served.idle()
