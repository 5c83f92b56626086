"""A client of OpenAI's streaming API that takes as little of the machine as it can.

It only notes when bytes came; what they say is read when the whole load is over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from serving.figures import Seen
from serving.traffic import Turn

LARGEST_READ = 1 << 16
PATH = "/v1/completions"


@dataclass(frozen=True)
class Server:
    """Where a server listens, the name that its model has there, and the key that it wants."""

    host: str
    port: int
    model: str
    key: str = ""


@dataclass
class Raw:
    """The bytes of an answer, and when they came.

    Attributes:
        planned: when the request was to be sent.
    """

    planned: float
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    error: str = ""


def request(server: Server, turn: Turn) -> bytes:
    """An HTTP request for exactly so many tokens at temperature 0, as a stream."""
    body = json.dumps(
        {
            "model": server.model,
            "prompt": turn.prompt,
            "max_tokens": turn.tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    key = f"Authorization: Bearer {server.key}\r\n" if server.key else ""
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"{key}Connection: close\r\n\r\n"
    )
    return head.encode() + body


async def ask(server: Server, turn: Turn, planned: float) -> Raw:
    """Everything that came of a request, or why nothing did."""
    raw = Raw(planned)
    try:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            writer.write(request(server, turn))
            while data := await reader.read(LARGEST_READ):
                raw.reads.append((perf_counter(), data))
        finally:
            writer.close()
    except OSError as error:
        raw.error = str(error) or type(error).__name__
    return raw


def seen(raw: Raw, turn: Turn) -> Seen:
    """What an answer says. Another number of tokens than was asked for is an error."""
    if raw.error:
        return Seen(raw.planned, error=raw.error)
    status, events = _head(raw.reads), list(_events(raw.reads))
    if status != 200:
        return Seen(raw.planned, error=f"status {status}")
    pieces: list[float] = []
    ended: float | None = None
    usage: dict[str, object] = {}
    for at, data in events:
        if data == b"[DONE]":
            continue
        value = json.loads(data)
        if "error" in value:
            return Seen(raw.planned, error=str(value["error"]))
        usage = value.get("usage") or usage
        for choice in value.get("choices", ()):
            if choice.get("text"):
                pieces.append(at)
            if choice.get("finish_reason"):
                ended = at
    tokens = _number(usage.get("completion_tokens"))
    if tokens != turn.tokens or not pieces or ended is None:
        return Seen(raw.planned, error=f"{tokens} tokens in {len(pieces)} pieces")
    details = usage.get("prompt_tokens_details")
    cached = _number(details.get("cached_tokens")) if isinstance(details, dict) else 0
    prompt = _number(usage.get("prompt_tokens"))
    return Seen(raw.planned, tuple(pieces), ended, tokens, prompt, cached)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _head(reads: Sequence[tuple[float, bytes]]) -> int:
    """The status of an answer; 0 where there is none."""
    words = b"".join(data for _, data in reads).split(b" ", 2)
    return int(words[1]) if len(words) > 2 and words[1].isdigit() else 0


def _events(reads: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Server-sent events of an answer, each when its last byte had come."""
    chunked, pending, text, in_head = b"", b"", b"", True
    plain = False
    for at, data in reads:
        pending += data
        if in_head:
            head, found, rest = pending.partition(b"\r\n\r\n")
            if not found:
                continue
            in_head, pending = False, rest
            plain = b"transfer-encoding: chunked" not in head.lower()
        if plain:
            text, pending = text + pending, b""
        else:
            chunked, pending = chunked + pending, b""
            body, chunked = _unchunked(chunked)
            text += body
        *whole, text = text.replace(b"\r\n", b"\n").split(b"\n\n")
        for event in whole:
            if event.startswith(b"data:"):
                yield at, event.removeprefix(b"data:").strip()
            elif event.startswith(b"error:"):
                yield at, b'{"error":' + event.removeprefix(b"error:") + b"}"


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    """The content of the whole chunks that data begins with, and what is left."""
    body = b""
    while True:
        size, found, rest = data.partition(b"\r\n")
        if not found:
            return body, data
        length = int(size.split(b";")[0], 16)
        if len(rest) < length + 2:
            return body, data
        body, data = body + rest[:length], rest[length + 2 :]
