"""Answers as messages: why they ended, and what they took."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.deltas import Arguments, CallBegins, Content, NoCall
from edgewise.hosting.base import Ended, Said
from edgewise.server.anthropic.answer import PING, Answer, usage_of
from edgewise.server.anthropic.failing import body_of, failed
from edgewise.server.anthropic.request import MessagesRequest
from edgewise_runtime.engine.completion import Usage
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from tests.sdk.server.anthropic.conftest import MODEL, QUESTION

ASKED = MessagesRequest.model_validate(
    {"model": MODEL, "max_tokens": 9, "messages": QUESTION, "stop_sequences": ["END"]}
)


def ended(finish_reason: str, tokens: int = 9, stop: str | None = None) -> Ended:
    usage = Usage(20, tokens, 16)
    return Ended(0, "", "", (), (), finish_reason, usage, {}, seed=1, stop=stop)


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (ended("stop", 3), "end_turn", None),
        (ended("stop", 3, "END"), "stop_sequence", "END"),
        (ended("stop", 3, "a stop of the model's own"), "end_turn", None),
        (ended("length"), "max_tokens", None),
        (ended("length", 3), "model_context_window_exceeded", None),
        (ended("tool_calls", 3), "tool_use", None),
        (ended("timeout", 3), "max_tokens", None),
        (ended("cancelled", 3), "max_tokens", None),
    ],
)
def test_why_an_answer_ended_is_told(end: Ended, reason: str, sequence: str | None) -> None:
    answer = Answer(ASKED)
    *_, delta, last = answer.of(end)
    assert delta["delta"] == {"stop_reason": reason, "stop_sequence": sequence}
    assert last == {"type": "message_stop"}
    whole = answer.whole(end)
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, sequence)


def test_tokens_of_the_cache_are_no_input() -> None:
    assert usage_of(Usage(20, 3, 16)) == {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 16,
        "output_tokens": 3,
    }


def test_no_block_is_left_open_by_an_error() -> None:
    answer = Answer(ASKED)
    begun = [*answer.begin(), *answer.of(Said((Content("Hel"), CallBegins(0, "a", "f"))))]
    assert begun[-1]["type"] == "content_block_delta"
    assert [event["type"] for event in answer.broken()] == ["content_block_stop"]


@pytest.mark.parametrize("end", [ended("stop", 3), ended("stop", 3, "END"), ended("tool_calls")])
def test_what_is_half_of_a_call_is_said_to_be_none(end: Ended) -> None:
    cut = Said((CallBegins(0, "a", "f"), Arguments(0, "{"), NoCall(0, "f({", "cut")))
    answer = Answer(ASKED, streams=True)
    list(answer.of(cut))
    with pytest.raises(EngineError, match="'f' is none"):
        list(answer.of(end))
    answer = Answer(ASKED, streams=True)
    list(answer.of(cut))
    delta, _ = answer.of(ended("length"))
    assert delta["delta"]["stop_reason"] == "max_tokens"


def test_a_ping_says_that_a_call_is_coming() -> None:
    assert list(Answer(ASKED).of(Said((CallBegins(0, "a", "f"),)))) == [PING]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InputError("?"), 400, "invalid_request_error"),
        (InputError("?", code="input.key"), 401, "authentication_error"),
        (InputError("?", code="input.model"), 404, "not_found_error"),
        (InputError("?", code="input.body_size"), 413, "request_too_large"),
        (EngineError("?", code="engine.busy"), 529, "overloaded_error"),
        (EngineError("?", code="engine.memory"), 529, "overloaded_error"),
        (EngineError("?", code="engine.draining"), 503, "overloaded_error"),
        (EngineError("?", code="engine.gone"), 502, "api_error"),
        (EdgewiseError("?", code="internal"), 500, "api_error"),
    ],
)
def test_errors_have_the_api_s_words(error: EdgewiseError, status: int, kind: str) -> None:
    response = failed(error)
    assert response.status_code == status
    assert response.headers["request-id"].startswith("req_")
    body: dict[str, Any] = body_of(error)
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert body["error"]["message"] == str(error)
