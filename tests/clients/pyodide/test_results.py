"""Plain data of the engine's becomes results in the words of `edgewise.Completion`."""

from __future__ import annotations

from dataclasses import fields
from math import inf
from typing import Any

import pytest

from edgewise import answers
from edgewise_client import Completion, EdgewiseError, InputError, UnsupportedError
from edgewise_client import deltas as ours
from edgewise_client.errors import errors_of_javascript, translated
from edgewise_client.results import TokenLogprob, ToolCall, completion_of, info_of
from edgewise_runtime.calls import deltas as theirs

TOLD: dict[str, Any] = {
    "text": "Rain.",
    "reasoning": "Well",
    "toolCalls": [{"id": "c1", "name": "look", "text": '{"at": 3}', "arguments": {"at": 3}}],
    "written": "<think>Well</think>Rain.",
    "tokenIds": [5, 6],
    "finishReason": "tool_calls",
    "usage": {"promptTokens": 4, "cachedTokens": 1, "completionTokens": 2, "totalTokens": 6},
    "timings": {
        "ttftMs": 250,
        "prefillMs": 100,
        "decodeMs": 50,
        "prefillTokensPerSecond": 30,
        "decodeTokensPerSecond": 20,
        "decodeTokens": 1,
    },
    "seed": str(2**64 - 1),
    "contextFull": False,
    "droppedTurns": 2,
}


def test_a_completion_has_all_that_was_told() -> None:
    completion = completion_of(TOLD)
    assert completion.token_ids == (5, 6)
    assert completion.usage.total_tokens == 6
    assert completion.timings.ttft_s == 0.25
    assert completion.seed == 2**64 - 1
    assert completion.parsed is None
    assert completion_of({**TOLD, "parsed": [1]}).parsed == [1]


def test_a_completion_says_how_likely_its_tokens_were_where_that_was_told() -> None:
    assert completion_of(TOLD).logprobs is None
    said = {"text": "a", "bytes": [97]}
    told = {
        **said,
        "tokenId": 5,
        "logprob": -0.5,
        "top": [
            {**said, "tokenId": 5, "logprob": -0.5},
            {**said, "tokenId": 6, "logprob": None},
        ],
    }
    assert completion_of({**TOLD, "logprobs": [told]}).logprobs == (
        TokenLogprob(5, -0.5, ((5, -0.5), (6, -inf))),
    )


def test_a_completion_calls_its_fields_as_the_sdk_does() -> None:
    names = {one.name for one in fields(Completion)}
    assert names - {"parsed"} <= {one.name for one in fields(answers.Completion)}


def test_an_answer_goes_back_as_a_message_with_its_calls() -> None:
    completion = completion_of(TOLD)
    message = completion.message()
    assert message["reasoning_content"] == "Well"
    assert message["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 3}'}
    (call,) = completion.tool_calls
    assert call.arguments == {"at": 3}
    assert call.result([1]) == {
        "role": "tool",
        "tool_call_id": "c1",
        "name": "look",
        "content": "[1]",
    }


def test_a_result_that_is_no_json_is_refused() -> None:
    with pytest.raises(InputError, match="look"):
        ToolCall("c1", "look", "{}").result({1, 2})


@pytest.mark.parametrize("kind", ours.KINDS.values())
def test_deltas_are_those_of_the_sdk(kind: type[ours.Delta]) -> None:
    same = getattr(theirs, kind.__name__)
    assert [one.name for one in fields(kind)] == [one.name for one in fields(same)]


def test_text_that_is_said_is_in_the_piece_and_thoughts_are_not() -> None:
    assert ours.piece_of({"kind": "content", "text": "a"}).text == "a"
    assert ours.piece_of({"kind": "reasoning", "text": "a"}).text == ""
    no_call = {"kind": "no call", "index": None, "text": "<t", "why": "cut"}
    assert ours.piece_of(no_call) == ours.Piece("<t", (ours.NoCall(None, "<t", "cut"),))


def test_a_context_that_is_unknown_is_none() -> None:
    told = {"name": "m", "family": "", "quant": "", "context": None, "tokenizer": "t", "more": 1}
    assert info_of(told).context is None


class JavaScriptError(Exception):
    """As Pyodide raises them: with the members of the error."""

    def __init__(self, **members: object) -> None:
        super().__init__()
        vars(self).update(members)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("unsupported.remote", UnsupportedError),
        ("input.sampling", InputError),
        ("host.gone", EdgewiseError),
    ],
)
def test_an_error_of_the_engine_becomes_ours(code: str, kind: type[EdgewiseError]) -> None:
    with pytest.raises(EdgewiseError) as caught, errors_of_javascript():
        raise JavaScriptError(code=code, message="It is 7.", remedy="Take 6.")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.remedy) == (code, "Take 6.")
    assert str(caught.value) == f"It is 7. Take 6. [{code}]"


def test_any_other_error_stays_as_it_is() -> None:
    error = JavaScriptError(message="x is undefined", code=None, remedy=None)
    assert translated(error) is error
