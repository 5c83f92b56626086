"""Rows out: what an answer, or what went wrong with a row, is in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from edgewise.hosting.base import Ended, TokenSaid
from edgewise.server.openai.chat_writing import called
from edgewise.server.openai.choices import finite
from edgewise.server.writing import written
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import shorten

_LIKELY = pa.struct([("token", pa.string()), ("logprob", pa.float64())])
_TOKEN = pa.struct(
    [
        ("token", pa.string()),
        ("token_id", pa.int32()),
        ("logprob", pa.float64()),
        ("top", pa.list_(_LIKELY)),
    ]
)
_ERROR = pa.struct([("code", pa.string()), ("message", pa.string()), ("remedy", pa.string())])

SCHEMA = pa.schema(
    [
        ("completion", pa.string()),
        ("reasoning", pa.string()),
        ("tool_calls", pa.string()),
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("seed", pa.uint64()),
        ("logprobs", pa.list_(_TOKEN)),
        ("error", _ERROR),
    ]
)
"""The columns that a row gets. Of a row that failed all but `error` are null, of others `error` is;
`tool_calls` is a JSON list as OpenAI's API has it; log-probabilities are in nats."""

Answer = Ended | EdgewiseError


def check_free(columns: Iterable[str], added: Iterable[str]) -> None:
    """Refuse a table that has columns of the names that are to be added.

    Raises InputError ``input.column``.
    """
    taken = sorted(set(columns) & set(added))
    if taken:
        raise InputError(
            f"There is a column {shorten(taken[0])} already, which is what an answer is called.",
            remedy="Give it another name first (Dataset.rename_columns), or leave it out.",
            code="input.column",
        )


def with_answers(table: pa.Table, answers: Sequence[Answer]) -> pa.Table:
    """A table with the columns of `SCHEMA` behind its own, row by row."""
    rows = [_of_answer(one) for one in answers]
    added = pa.Table.from_pylist(rows, schema=SCHEMA)
    for name in SCHEMA.names:
        table = table.append_column(SCHEMA.field(name), added[name])
    return table


def _of_answer(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, EdgewiseError):
        said = {"code": answer.code, "message": answer.message, "remedy": answer.remedy}
        return {"error": {name: _whole(text) for name, text in said.items()}}
    usage, calls = answer.usage, answer.calls
    return {
        "completion": answer.text,
        "reasoning": answer.reasoning or None,
        "tool_calls": written([called(call) for call in calls]) if calls else None,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "seed": answer.seed,
        "logprobs": [_token(one) for one in answer.tokens] or None,
    }


def _token(token: TokenSaid) -> dict[str, Any]:
    top = [{"token": text, "logprob": finite(value)} for text, _, value in token.top]
    return {
        "token": token.text,
        "token_id": token.id,
        "logprob": finite(token.logprob),
        "top": top,
    }


def _whole(text: str) -> str:
    """A text that UTF-8 can write: an error may quote half a character."""
    return text.encode("utf-8", "replace").decode()
