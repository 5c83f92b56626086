"""Generations over a socket say what the engine does, several at once on each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from edgewise import Engine
from edgewise.server.socket.connection import Limits
from edgewise.server.socket.generations import Bounds
from tests.processes import eventually
from tests.sdk.server.socket.serving import Served, serving
from tests.sdk.server.socket.talk import talk, text_of

TEXT = "The quick brown fox"
LONG: dict[str, Any] = {"max_tokens": 200, "ignore_eos": True, "seed": 3, "stop": ["never"]}
"""Waiting for a text that does not come, the engine takes each token by itself."""
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("prompt", [TEXT, [5, 6, 7]])
def test_a_prompt_is_continued_as_the_engine_does(
    served: Served, engine: Engine, prompt: str | list[int]
) -> None:
    options: dict[str, Any] = {"max_tokens": 9, "seed": 4, "ignore_eos": True}
    written = engine.generate(prompt, **options)
    with talk(served.url) as client:
        client.generate("a", prompt, **options)
        done = client.last("a")
    (choice,) = done["choices"]
    assert choice["text"] == text_of(client.of("a")) == written.text
    assert choice["reason"] == "length"
    assert choice["usage"]["completion_tokens"] == 9
    assert choice["usage"]["total_tokens"] == 9 + written.usage.prompt_tokens
    assert choice["timings"].keys() == written.timings.to_json().keys()
    assert choice["seed"] == 4
    assert done["cancelled"] is False
    assert [one["n"] for one in client.of("a")] == list(range(len(client.of("a"))))
    ids = [token for piece in client.pieces("a") for token in piece["token_ids"]]
    assert tuple(ids) == written.token_ids


def test_a_conversation_is_answered_with_all_choices(served: Served, engine: Engine) -> None:
    options: dict[str, Any] = {"max_tokens": 5, "seed": 4, "ignore_eos": True}
    chatted = engine.chat(MESSAGES, **options)
    with talk(served.url) as client:
        asked = {**options, "n": 2}
        client.send(type="chat", id="a", model="tiny", messages=MESSAGES, options=asked)
        done = client.last("a")
    assert [one["index"] for one in done["choices"]] == [0, 1]
    assert done["choices"][0]["text"] == chatted.text
    for choice in done["choices"]:
        assert text_of(client.of("a"), choice["index"]) == choice["text"]


def test_log_probabilities_come_with_the_pieces(served: Served) -> None:
    with talk(served.url) as client:
        client.generate("a", max_tokens=3, ignore_eos=True, logprobs=True, top_logprobs=2)
        client.last("a")
    tokens = [token for piece in client.pieces("a") for token in piece["tokens"]]
    assert len(tokens) == 3
    for token in tokens:
        assert token["logprob"] < 0
        assert len(token["top"]) == 2
        assert bytes(token["bytes"]).decode(errors="replace") == token["text"]


def test_generations_on_one_socket_take_turns(served: Served) -> None:
    served.gate.close()
    with talk(served.url) as client:
        client.generate("a", **LONG)
        client.generate("b", **LONG)
        client.until(lambda one: one == {**one, "type": "accepted", "id": "b"})
        served.gate.open()
        client.last("a")
        client.last("b")
    order = [one["id"] for one in client.heard if one["type"] == "piece"]
    first_b, last_a = order.index("b"), len(order) - 1 - order[::-1].index("a")
    assert first_b < last_a
    assert text_of(client.of("a")) == text_of(client.of("b"))


def test_what_is_cancelled_ends_and_gives_its_pages_back(served: Served) -> None:
    with talk(served.url) as client:
        served.gate.close_after(6)
        client.generate("a", **LONG)
        client.until(lambda one: one["type"] == "piece")
        served.gate.wait()
        assert served.metric("num_requests_running") == 1
        client.send(type="cancel", id="a")
        client.send(type="cancel", id="a")
        client.send(type="cancel", id="never-was")
        client.send(type="ping")
        client.until(lambda one: one["type"] == "pong")
        served.gate.open()
        done = client.last("a")
        assert (done["cancelled"], done["choices"]) == (True, [])
        assert served.idle()
        client.generate("b", max_tokens=2)
        assert client.last("b")["cancelled"] is False


def test_a_generation_that_fails_says_so_and_the_others_go_on(served: Served) -> None:
    with talk(served.url) as client:
        client.generate("good", max_tokens=4, ignore_eos=True)
        client.generate("bad", temperature=-3)
        client.send(type="generate", id="nobody", model="none", prompt="Hi")
        assert client.last("bad")["code"].startswith("input.")
        assert client.last("nobody")["code"] == "input.model"
        assert client.last("good")["choices"][0]["reason"] == "length"


def test_a_ping_is_answered_with_what_it_said(served: Served) -> None:
    with talk(served.url) as client:
        client.send(type="ping", echo="14:03:22.118")
        assert client.next() == {"type": "pong", "echo": "14:03:22.118"}


def test_an_id_is_taken_while_its_generation_is_open(served: Served) -> None:
    with talk(served.url) as client:
        served.gate.close()
        client.generate("a", max_tokens=4, ignore_eos=True)
        client.generate("a", max_tokens=4, ignore_eos=True)
        error = client.until(lambda one: one["type"] == "error")
        assert error["code"] == "input.id"
        assert "id" not in error
        served.gate.open()
        assert client.last("a")["type"] == "done"


def test_generations_are_bounded_on_a_socket_and_in_all(bundle: Path) -> None:
    with serving(bundle, limits=Limits(open=2), bounds=Bounds(generations=3)) as served:
        served.gate.close()
        with talk(served.url) as one, talk(served.url) as other:
            for name in ("a", "b", "c"):
                one.generate(name, **LONG)
            error = one.last("c")
            assert (error["code"], "n" in error) == ("engine.busy", False)
            assert "2 generations are open on this socket" in error["message"]
            for name in ("d", "e"):
                other.generate(name, **LONG)
            assert "3 generations are under way" in other.last("e")["message"]
            served.gate.open()
            one.last("a")
            # One that is over is forgotten for one that is new.
            one.generate("f", max_tokens=1)
            assert one.last("f")["type"] == "done"


def test_sockets_are_bounded(bundle: Path) -> None:
    with serving(bundle, sockets=1) as served:

        def status() -> int:
            try:
                with talk(served.url):
                    return 101
            except InvalidStatus as refused:
                return refused.response.status_code

        with talk(served.url):
            assert status() == 503
        assert eventually(lambda: status() == 101)
