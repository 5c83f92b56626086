"""`edgewise serve` whose model is killed in the middle of a stream, and which is told to end."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.processes import eventually, running
from tests.runtime import sample
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.load.conftest import CONTEXT, MODEL
from tests.sdk.server.load.process import Serving, serving
from tests.sdk.server.load.streams import APIS, ask, read
from tests.sdk.test_constrained import TEMPLATE

MANY = CONTEXT - 1000
"""Tokens that no stream comes to before its model is killed."""
SOME = 800
"""Tokens that none comes to before all have begun."""
BEGUN = 1000
"""Bytes of a stream that has."""
KILLED = b'context."}'
"""What the error of a model that was killed ends with on a socket, which stays open."""
WHERE = {"socket": r'(?=\{"type":)', "ollama": r"\n(?=\{)"}
"""What comes before each value of a stream; in the others they are events."""
EVENT = r"data: (?=\{)"


@pytest.fixture(scope="module")
def endless(long_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that never ends an answer by itself."""
    eos = sample.read_manifest(long_bundle)["model"]["eos"]
    texts = {
        "chat_template.jinja": TEMPLATE,
        "generation_config.json": json.dumps({"suppress_tokens": eos}),
    }
    return with_texts(long_bundle, tmp_path_factory.mktemp("endless") / MODEL, texts)


@pytest.fixture(scope="module")
def server(endless: Path) -> Iterator[Serving]:
    with serving(endless) as found:
        yield found


def values(raw: bytes, name: str) -> list[dict[str, Any]]:
    """The JSON objects of a stream of an API."""
    text = raw.decode(errors="replace")
    decoder = json.JSONDecoder()
    starts = [match.end() for match in re.finditer(WHERE.get(name, EVENT), text)]
    return [decoder.raw_decode(text, start)[0] for start in starts]


def says_it(name: str, last: dict[str, Any]) -> bool:
    """Whether the last thing that a stream said is the end of its model, as its API says errors."""
    error: Any = last.get("error")
    match name:
        case "chat" | "completions":
            return error["type"] == "server_error" and error["code"] == "engine.gone"
        case "responses":
            return last["type"] == "error" and last["code"] == "engine.gone"
        case "messages":
            return last["type"] == "error" and error["type"] == "api_error"
        case "ollama":
            return isinstance(error, str)
        case _:
            return (last["type"], last["id"], last["code"]) == ("error", "g1", "engine.gone")


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("name", APIS)
def test_a_stream_whose_model_is_killed_says_so_and_the_next_one_is_answered(
    server: Serving, name: str
) -> None:
    api = APIS[name]
    until = replace(api, ends=KILLED) if name == "socket" else api
    with closing(ask(server.url, api, MANY)) as stream:
        begun = read(stream, until, BEGUN)
        killed = server.child
        os.kill(killed, signal.SIGKILL)
        said = values(begun + read(stream, until, 1 << 24), name)
    *before, last = said
    assert before
    assert says_it(name, last)
    assert "SIGKILL" in json.dumps(last)
    numbers = [value["sequence_number"] for value in said if "sequence_number" in value]
    assert numbers == list(range(len(numbers)))
    with closing(ask(server.url, api, 4)) as after:
        assert api.ends in read(after, api, 1 << 20)
    assert server.child != killed


@pytest.mark.landing
def test_sigterm_lets_streams_of_every_api_end_and_takes_no_other(endless: Path) -> None:
    with serving(endless) as server, ExitStack() as stack:
        streams = {}
        for name, api in APIS.items():
            streams[name] = stack.enter_context(closing(ask(server.url, api, SOME)))
        begun = {name: read(stream, APIS[name], BEGUN) for name, stream in streams.items()}
        child = server.child
        os.kill(child, signal.SIGSTOP)  # so that none of them ends before it is told to
        server.process.send_signal(signal.SIGTERM)
        client = Client(server.url)
        assert eventually(lambda: client.get("/ready").status == 503)
        for api in APIS.values():
            if api.path != "/v1/ws":
                refused = client.post(api.path, api.body(4))
                assert refused.status == 503
                assert "engine.draining" in refused.text
        os.kill(child, signal.SIGCONT)
        for name, stream in streams.items():
            ends = APIS[name].ends
            assert ends not in begun[name]
            assert ends in begun[name][-len(ends) :] + read(stream, APIS[name], 1 << 24)
        assert server.process.wait(60) == -signal.SIGTERM
        assert not running(child)
