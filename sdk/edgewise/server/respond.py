"""Answering a request for a resource: conditions, one range, compression (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

from anyio import open_file, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from edgewise.server.resource import Compressed, Resource

CHUNK = 1 << 20  # bytes read and sent at a time
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


async def respond(request: Request, resource: Resource, compressed: Compressed) -> Response:
    """The answer to a GET or HEAD of a resource."""
    squeezed = resource.compressible and "range" not in request.headers and accepts_gzip(request)
    etag = f'"{resource.sha256}{"-gzip" if squeezed else ""}"'
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": resource.cache_control,
        "Content-Type": resource.content_type,
        "ETag": etag,
    }
    if resource.compressible:
        headers["Vary"] = "Accept-Encoding"
    if _names(request.headers.get("if-none-match", ""), resource.sha256):
        headers.pop("Content-Type")
        return Response(status_code=304, headers=headers)
    if isinstance(resource.source, Path) and not await _unchanged(resource.source, resource.size):
        text = "This file of the bundle changed since the server started. Start it again.\n"
        return PlainTextResponse(text, status_code=409, headers={"Cache-Control": "no-store"})
    if squeezed:
        data = await _whole(resource)
        body = await to_thread.run_sync(compressed.get, resource.sha256, data)
        return Response(body, headers=headers | {"Content-Encoding": "gzip"})
    start, end, status = 0, resource.size, 200
    wanted = _RANGE.fullmatch(request.headers.get("range", "").strip().lower())
    condition = request.headers.get("if-range")
    if wanted and (condition is None or condition == etag):
        found = _extent(wanted.group(1), wanted.group(2), resource.size)
        if found is None:
            headers["Content-Range"] = f"bytes */{resource.size}"
            return Response(status_code=416, headers=headers)
        (start, end), status = found, 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{resource.size}"
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if isinstance(resource.source, bytes):
        return Response(resource.source[start:end], status_code=status, headers=headers)
    return StreamingResponse(_pieces(resource.source, start, end), status, headers)


def accepts_gzip(request: Request) -> bool:
    """Whether the Accept-Encoding header allows gzip."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        if name in ("gzip", "*"):
            quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
            return not re.fullmatch(r"0(\.0*)?", quality)
    return False


def _names(condition: str, sha256: str) -> bool:
    """Whether an If-None-Match names these contents in either encoding."""
    tags = (tag.strip().removeprefix("W/") for tag in condition.split(","))
    return any(tag in ("*", f'"{sha256}"', f'"{sha256}-gzip"') for tag in tags)


def _extent(first: str, last: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last; None where there is no such range."""
    if not first:
        length = int(last) if last else 0
        return (max(size - length, 0), size) if length and size else None
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None


async def _unchanged(path: Path, size: int) -> bool:
    try:
        status = await to_thread.run_sync(path.stat)
    except OSError:
        return False
    return status.st_size == size


async def _whole(resource: Resource) -> bytes:
    source = resource.source
    return source if isinstance(source, bytes) else await to_thread.run_sync(source.read_bytes)


async def _pieces(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    async with await open_file(path, "rb") as file:
        await file.seek(start)
        left = end - start
        while left and (piece := await file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece
