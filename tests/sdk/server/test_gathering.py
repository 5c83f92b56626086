"""What is written in one turn of the event loop is sent at once, in order, and all of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from edgewise.server.gathering import MOST, Gathering

Scenario = Callable[[Gathering, socket.socket], Awaitable[None]]


def play(scenario: Scenario) -> None:
    """Run a scenario with a connection, and the socket of who reads it."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
            try:
                await asyncio.wait_for(scenario(Gathering(transport), theirs), 30)
            finally:
                transport.abort()

    asyncio.run(run())


async def received(theirs: socket.socket, most: int = 1 << 20) -> bytes:
    return await asyncio.get_running_loop().sock_recv(theirs, most)


def arrived(theirs: socket.socket) -> bool:
    """Whether anything has been sent yet."""
    try:
        return bool(theirs.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_writes_of_a_turn_come_together_and_not_before_its_end() -> None:
    async def scenario(connection: Gathering, theirs: socket.socket) -> None:
        for part in (b"one ", b"two ", b"three"):
            connection.write(part)
        assert not arrived(theirs)
        assert await received(theirs) == b"one two three"
        connection.write(b"four")
        assert await received(theirs) == b"four"

    play(scenario)


def test_nobody_waits_for_the_end_of_a_turn_with_much() -> None:
    async def scenario(connection: Gathering, theirs: socket.socket) -> None:
        connection.write(b"a")
        connection.write(bytes(MOST))
        assert arrived(theirs)

    play(scenario)


def test_what_was_written_is_sent_before_the_end_of_a_connection() -> None:
    async def scenario(connection: Gathering, theirs: socket.socket) -> None:
        connection.write(b"last words")
        connection.close()
        assert connection.is_closing()
        connection.write(b" too late")
        assert await received(theirs) == b"last words"
        assert await received(theirs) == b""

    play(scenario)


def test_what_was_written_goes_before_what_another_writes_to_the_transport() -> None:
    async def scenario(connection: Gathering, theirs: socket.socket) -> None:
        connection.write(b"head ")
        connection.plain().write(b"body")
        found = b""
        while len(found) < 9:
            found += await received(theirs)
        assert found == b"head body"

    play(scenario)


def test_an_aborted_connection_says_nothing_more() -> None:
    async def scenario(connection: Gathering, theirs: socket.socket) -> None:
        connection.write(b"nobody hears this")
        connection.abort()
        assert await received(theirs) == b""

    play(scenario)
