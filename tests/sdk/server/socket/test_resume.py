"""A generation outlives its socket: the next one gets the rest, every piece once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine
from edgewise.server.socket.generations import Bounds
from tests.sdk.server.socket.serving import Served, serving
from tests.sdk.server.socket.talk import Json, Talk, talk, text_of

TEXT = "The quick brown fox"
LONG: dict[str, Any] = {"max_tokens": 120, "ignore_eos": True, "seed": 3, "stop": ["never"]}
"""Waiting for a text that does not come, the engine takes each token by itself."""


@pytest.fixture
def served(bundle: Path) -> Iterator[Served]:
    with serving(bundle) as served:
        yield served


def begun(served: Served, client: Talk, pieces: int) -> str:
    """Ask for a long answer, read the first pieces of it, and let the engine stand still."""
    served.gate.close_after(12)
    client.generate("a", TEXT, **LONG)
    for _ in range(pieces):
        client.until(lambda one: one["type"] == "piece")
    served.gate.wait()
    return client.secret("a")


def resume(client: Talk, secret: str, after: int) -> Json:
    client.send(type="resume", id="a", secret=secret, after=after)
    return client.next()


def whole(*parts: Talk) -> list[Json]:
    return [message for part in parts for message in part.of("a")]


@pytest.mark.parametrize("read", [1, 3])
def test_after_a_drop_every_piece_comes_once(served: Served, engine: Engine, read: int) -> None:
    written = engine.generate(TEXT, **LONG)
    with talk(served.url) as first:
        secret = begun(served, first, read)
        first.drop()
    assert served.left()
    with talk(served.url) as second:
        accepted = resume(second, secret, first.heard[-1]["n"])
        assert accepted == {"type": "accepted", "id": "a", "secret": secret, "n": read}
        served.gate.open()
        done = second.last("a")
    found = whole(first, second)
    assert [one["n"] for one in found] == list(range(len(found)))
    assert text_of(found) == done["choices"][0]["text"] == written.text


def test_what_came_while_nobody_listened_is_kept(served: Served) -> None:
    with talk(served.url) as first:
        secret = begun(served, first, 2)
        first.drop()
    assert served.left()
    served.gate.open()
    assert served.idle()
    with talk(served.url) as second:
        resume(second, secret, 1)
        done = second.last("a")
    assert done["choices"][0]["usage"]["completion_tokens"] == 120
    found = whole(first, second)
    assert [one["n"] for one in found] == list(range(len(found)))


def test_a_socket_may_be_lost_again_and_pieces_asked_for_again(served: Served) -> None:
    with talk(served.url) as first:
        secret = begun(served, first, 3)
        first.drop()
    with talk(served.url) as second:
        resume(second, secret, 0)
        second.until(lambda one: one.get("n") == 2 and one["type"] == "piece")
        second.drop()
    with talk(served.url) as third:
        resume(third, secret, -1)
        served.gate.open()
        third.last("a")
    assert [one["n"] for one in third.of("a")] == list(range(len(third.of("a"))))
    assert third.of("a")[:3] == first.of("a")[:3]
    assert second.of("a") == first.of("a")[1:3]


def test_its_end_can_be_had_again(served: Served) -> None:
    with talk(served.url) as first:
        first.generate("a", max_tokens=2)
        done = first.last("a")
        secret = first.secret("a")
        first.drop()
    with talk(served.url) as second:
        resume(second, secret, done["n"] - 1)
        assert second.last("a") == done
        assert resume(second, secret, done["n"])["n"] == done["n"] + 1
        assert resume(second, secret, done["n"])["type"] == "accepted"


def test_after_its_time_it_is_cancelled_and_its_pages_are_free(served: Served) -> None:
    with talk(served.url) as first:
        secret = begun(served, first, 1)
        first.drop()
    assert served.left()
    assert served.metric("num_requests_running") == 1
    served.clock.run_out()
    served.gate.open()
    assert served.idle()
    with talk(served.url) as second:
        error = resume(second, secret, 0)
        assert (error["type"], error["id"], error["code"]) == ("error", "a", "input.resume")
        assert served.metric("generation_tokens_total") < 120


def test_a_socket_that_is_thought_alive_gives_its_generation_up(served: Served) -> None:
    with talk(served.url) as first, talk(served.url) as second:
        secret = begun(served, first, 2)
        resume(second, secret, 0)
        error = first.until(lambda one: one["type"] == "error")
        assert (error["id"], error["code"]) == ("a", "engine.moved")
        served.gate.open()
        second.last("a")
        assert second.of("a")[0] == first.of("a")[1]
        first.send(type="ping")
        assert first.next() == {"type": "pong", "echo": ""}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secret": "x" * 43}, "input.resume"),
        ({"secret": "short"}, "input.name"),
        ({"id": "b"}, "input.resume"),
        ({"after": 1 << 20}, "input.resume"),
        ({"after": -2}, "input.range"),
        ({"after": "1"}, "input.type"),
    ],
)
def test_only_its_secret_id_and_numbers_resume_it(
    served: Served, change: dict[str, Any], code: str
) -> None:
    with talk(served.url) as first:
        first.generate("a", max_tokens=2)
        first.last("a")
        with talk(served.url) as second:
            asked = {"type": "resume", "id": "a", "secret": first.secret("a"), "after": 0}
            second.send(**{**asked, **change})
            error = second.next()
            assert (error["type"], error["code"]) == ("error", code)
            second.send(**asked)
            assert second.next()["type"] == "accepted"


def test_an_answer_that_nobody_takes_ends_when_its_pieces_have_no_room(bundle: Path) -> None:
    with serving(bundle, bounds=Bounds(pieces=20)) as served:
        with talk(served.url) as first:
            secret = begun(served, first, 2)
            first.drop()
        assert served.left()
        served.gate.open()
        assert served.idle()
        assert served.metric("generation_tokens_total") < 120
        with talk(served.url) as second:
            resume(second, secret, 1)
            error = second.last("a")
        assert error["code"] == "engine.unread"
        found = whole(first, second)
        assert [one["n"] for one in found] == list(range(len(found)))


def test_what_is_no_longer_kept_is_named(bundle: Path) -> None:
    with serving(bundle, bounds=Bounds(pieces=20)) as served, talk(served.url) as first:
        first.generate("a", TEXT, **LONG)
        first.last("a")
        with talk(served.url) as second:
            error = resume(second, first.secret("a"), 3)
            assert error["code"] == "input.resume"
            kept = int(error["message"].split("; ")[1].split(" ")[0])
            assert resume(second, first.secret("a"), kept - 1)["n"] == kept
            second.last("a")
