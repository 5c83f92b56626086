"""What an error is to HTTP. Each API writes the body of its errors itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from edgewise.server.operations.entry import note_failure
from edgewise_runtime.errors import EdgewiseError

STATUSES = {
    "bundle.entry": 400,
    "constraint": 400,
    "engine.busy": 503,
    "engine.closed": 503,
    "engine.constraint": 400,
    "engine.context": 400,
    "engine.draining": 503,
    "engine.gone": 502,
    "engine.memory": 503,
    "input": 400,
    "input.body_size": 413,
    "input.body_slow": 408,
    "input.body_type": 415,
    "input.headers": 431,
    "input.host": 421,
    "input.key": 401,
    "input.method": 405,
    "input.model": 404,
    "input.origin": 403,
    "input.path": 404,
    "input.response": 404,
    "input.size": 413,
    "input.url": 414,
    "unsupported": 400,
}
"""By code, or what it begins with up to a dot; others are 500."""

RETRY_SECONDS = {"engine.busy": 1, "engine.draining": 5, "engine.gone": 1, "engine.memory": 5}
"""After which it may be otherwise."""

LEFT = 499
"""Of an answer that nobody reads: the client has left."""

FAILED = "edgewise.failed"
"""Where a request's scope has how its path says errors, once the guard has seen it."""

Endpoint = Callable[[Request], Awaitable[Response]]


def status_of(error: EdgewiseError) -> int:
    """The status of a response that says this."""
    code = error.code
    while code not in STATUSES and "." in code:
        code = code.rpartition(".")[0]
    return STATUSES.get(code, 500)


def headers_of(error: EdgewiseError) -> dict[str, str]:
    """The headers of a response that says this."""
    headers = {"Cache-Control": "no-store"}
    if error.code in RETRY_SECONDS:
        headers["Retry-After"] = str(RETRY_SECONDS[error.code])
    if status_of(error) in (408, 413):  # the rest of the body would be taken for a request
        headers["Connection"] = "close"
    return headers


class Said(BaseModel):
    """What went wrong, by a word that stays, and what to do about it."""

    code: str
    message: str
    remedy: str


class Failure(BaseModel):
    """The body of an error of what is no API of others."""

    error: Said


def failed(error: EdgewiseError) -> Response:
    """The response of an error where no API of others has words for it."""
    said = {"code": error.code, "message": error.message, "remedy": error.remedy}
    return JSONResponse({"error": said}, status_of(error), headers_of(error))


def known(error: Exception) -> EdgewiseError:
    """The error itself where it is one of ours; of others the log has what happened."""
    if isinstance(error, EdgewiseError):
        return error
    note_failure(error)
    return EdgewiseError(
        f"The server failed at this request ({type(error).__name__}).",
        remedy="Its log has the details.",
        code="internal",
    )


def answering(endpoint: Endpoint, write: Callable[[EdgewiseError], Response]) -> Endpoint:
    """An endpoint whose errors an API writes in its own words.

    Args:
        write: the response of an error, with its `status_of` and `headers_of`.
    """

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(None, LEFT)
        except Exception as error:  # whatever it is, the client is told in its own words
            return write(known(error))

    return answer
