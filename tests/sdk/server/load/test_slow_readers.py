"""Clients that read nothing: little waits for each, others do not notice, and they are closed."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

import pytest

from edgewise.server import patience
from edgewise.server.socket import transport
from tests.processes import eventually
from tests.sdk.server.load.conftest import Served
from tests.sdk.server.load.streams import APIS, Api, ask, read

TOKENS = 1200
RECEIVE_BUFFER = 4096
HIGH_WATER = 64 << 10
"""Bytes above which nothing more is written to a connection: asyncio's own."""
PIECE = 64 << 10
"""Of one write at most."""
LISTED = b'"token_logprobs"'


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="20"), pytest.param(200, id="200", marks=pytest.mark.full)]
)
def test_they_hold_up_nobody_and_little_waits_for_each(served: Served, count: int) -> None:
    api, apis = APIS["completions"], list(APIS.values())
    with closing(ask(served.url, api, 200)) as alone:
        text = read(alone, api, 1 << 24)
    with ExitStack() as stack:
        for number in range(count):
            one = ask(served.url, apis[number % len(apis)], TOKENS, RECEIVE_BUFFER)
            stack.enter_context(closing(one))
        with closing(ask(served.url, api, 200)) as beside:
            # Each token by itself, as log-probabilities are asked for: as many as alone.
            assert read(beside, api, 1 << 24).count(LISTED) == text.count(LISTED)
        assert served.idle()  # all of it was computed, read or not
        queued = served.queued()
        assert sum(size > 0 for size in queued) > count // 4
        assert max(queued) <= HIGH_WATER + PIECE
    assert eventually(lambda: not any(served.queued()))


def test_who_takes_nothing_for_a_while_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (patience, transport):
        monkeypatch.setattr(module, "STALL_SECONDS", 0.2)
    with ExitStack() as stack:
        slow = [
            (api, stack.enter_context(closing(ask(served.url, api, TOKENS, RECEIVE_BUFFER))))
            for api in APIS.values()
        ]
        assert served.idle()
        assert eventually(lambda: not any(served.queued()))
        assert [api.path for api, one in slow if api.ends in rest(api, one)] == []


def rest(api: Api, one: socket.socket) -> bytes:
    """What of a stream had come before it was closed."""
    try:
        return read(one, api, 1 << 24)
    except ConnectionError:
        return b""
