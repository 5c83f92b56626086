"""What is noted of requests that come through an API, asked by its official client."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.operations.logs import Log
from edgewise.server.operations.operations import Operations
from edgewise.server.run import in_background, listen
from tests.processes import eventually
from tests.sdk.server.models import Some
from tests.sdk.server.operations.prometheus import read
from tests.sdk.server.socket.talk import talk

KEY = "canary-key-0123456789"
CANARY = "canary-7e40"
HEADER = "x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch={};\n"
OPTIONS: dict[str, Any] = {"model": "tiny", "max_tokens": 5}


@dataclass(frozen=True)
class Asked:
    client: OpenAI
    url: str
    operations: Operations
    log: io.StringIO

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@pytest.fixture
def asked(bundle: Path) -> Iterator[Asked]:
    """A server of a tiny model, watched."""
    log = io.StringIO()
    operations = Operations(log=Log("json", log), wanted=["tiny"])
    engine = asyncio.run(AsyncEngine.load(bundle))
    models = Some({"tiny": LocalModel("tiny", engine)})
    app = make_app({}, {}, models=models, api_key=KEY, operations=operations)
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        OpenAI(base_url=f"{url}v1", api_key=KEY, max_retries=0) as client,
    ):
        yield Asked(client, url, operations, log)
    asyncio.run(engine.close())


def chat(content: str = CANARY, cch: str = "a5145") -> list[Any]:
    system = {"role": "system", "content": f"{HEADER.format(cch)}You are an agent."}
    return [system, {"role": "user", "content": content}]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_a_line_with_its_tokens(asked: Asked, stream: bool) -> None:
    answer = asked.client.chat.completions.create(messages=chat(), stream=stream, **OPTIONS)
    if stream:
        assert list(answer)
    assert eventually(lambda: len(asked.lines()) == 1)
    (line,) = asked.lines()
    assert line["route"] == "/v1/chat/completions"
    assert (line["model"], line["status"]) == ("tiny", 200)
    assert line["completion_tokens"] <= 5
    assert line["prompt_tokens"] > 10
    assert line["ended"] in ("length", "stop")
    assert line["agent_lines"] == "claude-code"
    assert 0 < line["ttft_s"] <= line["duration_s"]


def test_nothing_of_prompts_answers_and_keys_is_logged(
    asked: Asked, capfd: pytest.CaptureFixture[str]
) -> None:
    create = asked.client.chat.completions.create
    said = create(messages=chat(), user=CANARY, stop=[CANARY], **OPTIONS).choices[0].message.content
    wrong = [
        {"model": CANARY},
        {"temperature": -1},
        {"extra_headers": {"Authorization": f"Bearer {CANARY}"}},
        {"response_format": {"type": CANARY}},
        {"messages": [{"role": CANARY, "content": CANARY}]},
        {"messages": [{"role": "user", "content": f"{CANARY} " * 400}]},
    ]
    for options in wrong:
        with pytest.raises(APIStatusError):
            create(**{"messages": chat(), **OPTIONS, **options})
    assert eventually(lambda: len(asked.lines()) == 1 + len(wrong))
    written = asked.log.getvalue() + "".join(capfd.readouterr())
    assert "canary" not in written
    assert said
    assert json.dumps(said) not in written


def test_the_second_prompt_of_an_agent_finds_the_first_although_a_line_changed(
    asked: Asked,
) -> None:
    for cch in ("a5145", "0fae1"):
        asked.client.chat.completions.create(messages=chat(cch=cch), **OPTIONS)
    assert eventually(lambda: len(asked.lines()) == 2)
    cold, warm = asked.lines()
    assert cold["cached_tokens"] == 0
    assert warm["cached_tokens"] >= warm["prompt_tokens"] - 32


def test_the_numbers_of_the_model_are_on_the_page(asked: Asked) -> None:
    asked.client.chat.completions.create(messages=chat(), **OPTIONS)
    found = read(asked.client.get("../metrics", cast_to=str))
    assert found["vllm:time_to_first_token_seconds"].of("_count", model_name="tiny") == [1]
    assert found["edgewise:model_up"].of(model_name="tiny") == [1]
    assert found["edgewise:models_loaded"].of() == [1]
    assert found["edgewise:agent_lines_total"].of(agent="claude-code") == [1]
    route = "/v1/chat/completions"
    assert found["edgewise:http_requests_total"].of(route=route, status="2xx") == [1]


def test_a_stream_ends_well_while_the_server_refuses_what_comes(asked: Asked) -> None:
    create = asked.client.chat.completions.create
    options = {**OPTIONS, "max_tokens": 40}
    with create(messages=chat(), stream=True, **options) as stream:
        first = next(iter(stream))
        asked.operations.drain.begin()
        with pytest.raises(APIStatusError) as error:
            create(messages=chat(), **OPTIONS)
        rest = list(stream)
    assert first.id == rest[-1].id
    assert rest[-1].choices[0].finish_reason in ("length", "stop")
    assert error.value.status_code == 503
    assert error.value.code == "engine.draining"
    assert int(error.value.response.headers["Retry-After"]) > 0
    assert eventually(lambda: asked.operations.drain.over)


def test_each_request_over_a_websocket_is_a_line_until_the_server_ends(asked: Asked) -> None:
    with talk(asked.url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        for name in ("a", "b"):
            client.generate(name, CANARY, max_tokens=3, ignore_eos=True)
            assert client.last(name)["type"] == "done"
        assert asked.operations.counts.open_sockets == 1
        asked.operations.drain.begin()
        assert asked.operations.drain.over, "an idle socket holds nobody up"
        client.generate("c", CANARY)
        assert client.last("c")["code"] == "engine.draining"
    assert eventually(lambda: len(asked.lines()) == 3)
    first, second, connection = asked.lines()
    for line in (first, second):
        assert (line["method"], line["route"]) == ("WS", "/v1/ws")
        assert (line["completion_tokens"], line["ended"]) == (3, "length")
    assert first["request_id"] == second["request_id"] == connection["request_id"]
    assert connection["status"] == 101
    assert "model" not in connection
    assert CANARY not in asked.log.getvalue()


def test_a_client_that_leaves_in_the_middle_is_said(asked: Asked) -> None:
    options = {**OPTIONS, "max_tokens": 100}
    with asked.client.chat.completions.create(messages=chat(), stream=True, **options) as stream:
        next(iter(stream))
    assert eventually(lambda: len(asked.lines()) == 1)
    (line,) = asked.lines()
    assert line["ended"] in ("left", "stop", "length")  # it may have been quicker
    assert asked.operations.counts.streams == 0
