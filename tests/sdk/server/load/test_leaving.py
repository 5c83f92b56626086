"""Clients that leave wherever they are: nothing of theirs is left in the server."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import eventually
from tests.sdk.server.load.conftest import Served
from tests.sdk.server.load.streams import APIS, ask, leave, read

SEED = 19
TOGETHER = 16
MOST_READ = 6000
"""Bytes: from none of the answer to nearly all of it."""


def leavers(served: Served, count: int) -> None:
    chance = random.Random(SEED)
    plans = [
        (chance.choice(list(APIS.values())), chance.randrange(1, 200), chance.randrange(MOST_READ))
        for _ in range(count)
    ]

    def one(number: int) -> None:
        api, tokens, most = plans[number]
        connection = ask(served.url, api, tokens)
        with suppress(ConnectionError, TimeoutError):
            read(connection, api, most if number % 4 else 0)
        leave(connection)

    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(one, range(count)))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "count", [pytest.param(100, id="100"), pytest.param(1000, id="1000", marks=pytest.mark.full)]
)
def test_nothing_is_left_of_those_who_leave(served: Served, count: int) -> None:
    for api in APIS.values():  # whatever the first request of each makes stays
        connection = ask(served.url, api, 4)
        assert api.ends in read(connection, api, 1 << 20)
        leave(connection)
    assert served.idle()
    # A generation of a socket that is gone is kept for a while, without a task or a page.
    assert eventually(lambda: served.tasks() <= 2)
    tasks, files = served.tasks(), open_files()

    leavers(served, count)

    assert served.idle()
    assert eventually(lambda: served.tasks() <= tasks)
    assert eventually(lambda: open_files() <= files)
    assert served.engine.session.loop.engine.check() == []
