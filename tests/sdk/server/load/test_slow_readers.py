"""Clients that read nothing: little waits for each, and others do not notice.

That they are closed is for tests/sdk/server/{test_patience,socket/test_hostile}.py.
"""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from tests.processes import eventually
from tests.sdk.server.load.conftest import Served
from tests.sdk.server.load.streams import APIS, LONG, ask, read

TOKENS = 1200
RECEIVE_BUFFER = 4096
HIGH_WATER = 64 << 10
"""Bytes above which nothing more is written to a connection: asyncio's own."""
PIECE = 64 << 10
"""Of one write at most."""
DRAWN = "generation_tokens_total"
LISTED = b'"token_logprobs"'


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="20"), pytest.param(200, id="200", marks=pytest.mark.full)]
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
