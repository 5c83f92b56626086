"""What is written to a connection in one turn of the event loop is sent at once.

A system call, and the waking of who reads, takes longer than all else that a piece of an answer
takes. The head of an answer comes with its first piece, and the last piece with the end.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOST = 64 << 10
"""Bytes that wait for the turn's end, so that whoever does not read is noticed."""


class Gathering:
    """A transport that sends what was written at the end of the event loop's turn.

    Everything else is the transport's own.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._events = asyncio.get_running_loop()
        self._written: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._written:
            self._events.call_soon(self._send)
        self._written.append(data)
        self._size += len(data)
        if self._size >= MOST:
            self._send()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def plain(self) -> asyncio.Transport:
        """The transport itself, for who writes to it from now on."""
        self._send()
        return self._transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._written:
            data = b"".join(self._written)
            self._written.clear()
            self._size = 0
            if not self._transport.is_closing():
                self._transport.write(data)
