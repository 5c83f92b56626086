"""OpenAI's batch files: a request a line in, its response a line out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import pyarrow as pa

from edgewise.hosting.base import Hosted
from edgewise.ray.data.keys import digest_of, seed_of
from edgewise.ray.data.parts import BATCH_ID, ROW_KEY
from edgewise.ray.data.worker import Load, is_own, loaded, patiently, together
from edgewise.server.failing import status_of
from edgewise.server.openai import chat, completions, embeddings
from edgewise.server.openai.chat_request import ChatRequest
from edgewise.server.openai.completions_request import CompletionRequest
from edgewise.server.openai.embeddings_request import EmbeddingRequest
from edgewise.server.openai.failing import body_of
from edgewise.server.openai.sampling import Sampling
from edgewise.server.reading import MAX_BODY, read_data, read_value
from edgewise.server.wire_types import JsonObject, Name, Strict
from edgewise.server.writing import new_id, written
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import shorten

TEXT = "text"
"""The column with a file's lines, as `ray.data.read_text` calls it."""

Requests = type[ChatRequest] | type[CompletionRequest] | type[EmbeddingRequest]
APIS: dict[str, tuple[Requests, Callable[[Hosted, Any], Awaitable[dict[str, Any]]]]] = {
    "/v1/chat/completions": (ChatRequest, chat.answered),
    "/v1/completions": (CompletionRequest, completions.answered),
    "/v1/embeddings": (EmbeddingRequest, embeddings.answered),
}
"""By a line's `url`: what its body is, and what answers it."""


class Line(Strict):
    """A request of a batch file."""

    custom_id: Name
    method: Literal["POST"]
    url: Name
    body: JsonObject


def line_of(text: str) -> Line:
    """A line that has been read. Raises InputError ``input.body``, ``input.body_size``."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BODY:
        raise InputError(
            f"A line has {len(data):,} bytes; {MAX_BODY:,} are read at most.",
            code="input.body_size",
        )
    return read_data(data, Line)


def digest_of_line(row: Mapping[str, Any]) -> bytes:
    """What a line is known by: its ``custom_id``, or all of it where it has none."""
    try:
        return digest_of({"custom_id": line_of(row[TEXT]).custom_id}, "custom_id")
    except InputError:
        return digest_of({TEXT: row[TEXT]}, None)


class Answering:
    """Answers the lines of tables; what `map_batches` makes an actor of."""

    def __init__(self, load: Load, model: str | None, seed: int, keep: bool) -> None:
        """Load the model.

        Args:
            load: loads it.
            model: what requests have to call it; None for whatever they like.
            seed: from which requests that say none have their own.
            keep: as `Completing`.
        """
        self._hosted = loaded(load)
        self._model = model
        self._seed = seed
        self._keep = keep

    async def __call__(self, table: pa.Table) -> pa.Table:
        """Lines of output for lines of input; raises what is no request's own error."""
        self._hosted()
        rows = table.select([ROW_KEY, TEXT]).to_pylist()
        lines = await together(map(self._line, rows))
        return pa.table(
            {
                ROW_KEY: pa.array([row[ROW_KEY] for row in rows], pa.string()),
                "line": pa.array([line for line, _ in lines], pa.string()),
                "failed": pa.array([failed for _, failed in lines], pa.bool_()),
            }
        )

    async def _line(self, row: Mapping[str, Any]) -> tuple[str, bool]:
        """A line of output, and whether its request has failed."""
        custom_id, response, error = None, None, None
        try:
            line = line_of(row[TEXT])
            custom_id = line.custom_id
            response = _response(200, await patiently(lambda: self._answer(line, row)))
        except EdgewiseError as failure:
            if not self._keep or not is_own(failure):
                raise
            if custom_id is None:
                error = {"code": failure.code, "message": failure.said}
            else:
                response = _response(status_of(failure), body_of(failure))
        head = {"id": f"{BATCH_ID}{row[ROW_KEY]}", "custom_id": custom_id}
        failed = response is None or response["status_code"] != 200
        return written({**head, "response": response, "error": error}), failed

    async def _answer(self, line: Line, row: Mapping[str, Any]) -> dict[str, Any]:
        if line.url not in APIS:
            raise InputError(
                f"A line's url is {shorten(line.url)}.",
                remedy=f"There are {', '.join(APIS)}.",
                code="input.path",
            )
        kind, answered = APIS[line.url]
        asked: Any = read_value(line.body, kind)
        if self._model is not None and asked.model != self._model:
            raise InputError(
                f"There is no model {shorten(asked.model)}.",
                remedy=f"There is {self._model}.",
                code="input.model",
            )
        if isinstance(asked, Sampling):
            asked = self._seeded(asked, row)
        found: dict[str, Any] = await answered(self._hosted(), asked)
        return found

    def _seeded(self, asked: Sampling, row: Mapping[str, Any]) -> Sampling:
        if asked.stream:
            raise InputError("stream is true; a line has a whole answer.", code="input.body")
        if asked.seed is not None:
            return asked
        return asked.model_copy(update={"seed": seed_of(self._seed, bytes.fromhex(row[ROW_KEY]))})


def _response(status: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"status_code": status, "request_id": new_id("req_"), "body": body}
