"""Answering a request for a resource: conditions, one range, compression (RFC 9110).

Starlette's `FileResponse` makes ETags of times, answers several ranges with a multipart body and
opens the file again by its name. What is sent here comes from one handle, compared with the file
that was offered.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from io import FileIO
from typing import Literal

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from edgewise.server.resource import Compressed, Resource

CHUNK = 1 << 20  # bytes read and sent at a time
CHANGED = "This file changed since the server offered it. Start the server again.\n"
_RANGE = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")
_QUALITY = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


async def respond(request: Request, resource: Resource, compressed: Compressed) -> Response:
    """The answer to a GET or HEAD of a resource."""
    head = request.method == "HEAD"
    asked = "" if head else request.headers.get("range", "")
    squeezed = (
        resource.compressible
        and not asked
        and prefers_gzip(request.headers.get("accept-encoding", ""))
    )
    etag = f'"{resource.sha256}{"-gzip" if squeezed else ""}"'
    headers = {"Accept-Ranges": "bytes", "Cache-Control": resource.cache_control, "ETag": etag}
    if resource.compressible:
        headers["Vary"] = "Accept-Encoding"
    if _names(request.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = resource.content_type
    start, end, status = 0, resource.size, 200
    if asked and request.headers.get("if-range", etag) == etag:
        wanted = extent(asked, resource.size)
        if wanted is None:
            headers["Content-Range"] = f"bytes */{resource.size}"
            return Response(status_code=416, headers=headers)
        if wanted != "whole":
            (start, end), status = wanted, 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{resource.size}"
    if squeezed:
        headers["Content-Encoding"] = "gzip"
        data = await to_thread.run_sync(_squeeze, resource, compressed)
        return _changed() if data is None else Response(data, status, headers)
    headers["Content-Length"] = str(end - start)
    if isinstance(resource.source, bytes):
        return Response(resource.source[start:end], status, headers)
    file = await to_thread.run_sync(resource.source.open)
    if file is None:
        return _changed()
    if head:
        file.close()
        return Response(None, status, headers)
    return _Slice(file, start, end, status, headers)


def prefers_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header likes gzip no less than no encoding at all."""
    qualities: dict[str, float] = {}
    for part in accepted.lower().split(","):
        name, _, parameter = (piece.strip() for piece in part.partition(";"))
        match = _QUALITY.fullmatch(parameter)
        qualities[name] = float(match[1]) if match else float(not parameter)
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def extent(asked: str, size: int) -> tuple[int, int] | Literal["whole"] | None:
    """What a Range header means: the first byte and the one after the last.

    ``"whole"`` for several ranges and for units other than bytes, which a server may ignore; None
    for what no such range is.
    """
    unit, _, ranges = asked.partition("=")
    if unit.strip().lower() != "bytes" or "," in ranges:
        return "whole"
    match = _RANGE.fullmatch(ranges.strip())
    if match is None:
        return None
    first, last = match.groups()
    if not first:  # the last so many bytes
        start, end = max(size - int(last or 0), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None


def _names(condition: str, etag: str) -> bool:
    """Whether an If-None-Match names this ETag."""
    tags = {tag.strip().removeprefix("W/") for tag in condition.split(",")}
    return etag in tags or "*" in tags


def _changed() -> Response:
    return PlainTextResponse(CHANGED, 409, {"Cache-Control": "no-store"})


def _squeeze(resource: Resource, compressed: Compressed) -> bytes | None:
    """The gzipped contents; None where the file is not what was offered."""
    source = resource.source
    if isinstance(source, bytes):
        return compressed.get(resource.sha256, lambda: source)
    file = source.open()
    if file is None:
        return None
    with file:
        return compressed.get(resource.sha256, file.readall)


class _Slice(StreamingResponse):
    """Bytes of an open file, which is closed once they are sent or the client has gone."""

    def __init__(
        self, file: FileIO, start: int, end: int, status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(_pieces(file, start, end), status, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


async def _pieces(file: FileIO, start: int, end: int) -> AsyncIterator[bytes]:
    file.seek(start)
    while start < end and (piece := await to_thread.run_sync(file.read, min(CHUNK, end - start))):
        start += len(piece)
        yield piece
