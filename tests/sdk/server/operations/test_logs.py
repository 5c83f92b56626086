"""A line for each request, with numbers and words of ours, and nothing that a client wrote."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from starlette.routing import Route

from edgewise.server.operations.entry import request_id
from edgewise.server.operations.logs import Log, LogFormat
from edgewise.server.operations.operations import Operations
from tests.processes import eventually
from tests.sdk.server.operations.serving import Slow, serving

CANARY = "canary-9d1f"
MADE = re.compile(r"req_[0-9a-f]{24}")


class Lines(io.StringIO):
    """What a log wrote."""

    def values(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


def logging(form: LogFormat = "json") -> tuple[Operations, Lines]:
    lines = Lines()
    return Operations(log=Log(form, lines)), lines


def test_a_request_is_a_line_of_json() -> None:
    operations, lines = logging()
    with serving(operations) as client:
        answer = client.get("/plain/x?y=z")
    (line,) = lines.values()
    assert line.pop("time").endswith("+00:00")
    assert line.pop("duration_s") >= 0
    assert line == {
        "event": "request",
        "request_id": answer.headers["X-Request-Id"],
        "method": "GET",
        "route": "/plain/{word}",
        "status": 200,
    }


@pytest.mark.parametrize("given", ["abc", "0" * 64, "a.b_c-d:E", "req_1"])
def test_the_id_that_a_client_gave_is_kept(given: str) -> None:
    operations, lines = logging()
    with serving(operations) as client:
        assert client.get("/plain/x", {"X-Request-Id": given}).headers["X-Request-Id"] == given
    assert lines.values()[0]["request_id"] == given


@pytest.mark.parametrize(
    "given", ["", "a" * 65, "a b", "<script>", "-a", "\x1b[31m", "ä", "a\nb", "a\n", '"', "{}"]
)
def test_an_id_that_is_no_plain_word_is_another(given: str) -> None:
    assert MADE.fullmatch(request_id(given))


def test_every_answer_has_an_id_of_its_own() -> None:
    with serving(Operations()) as client:
        answers = [client.get(path) for path in ("/plain/x", "/nothing", "/failing", "/health")]
    ids = [answer.headers["X-Request-Id"] for answer in answers]
    assert len(set(ids)) == 4
    assert all(map(MADE.fullmatch, ids))
    assert [answer.status for answer in answers] == [200, 404, 500, 200]


def test_an_error_that_nobody_foresaw_is_told_by_kind_and_place() -> None:
    operations, lines = logging()
    with serving(operations) as client:
        answer = client.get(f"/failing?{CANARY}")
    (line,) = lines.values()
    assert (line["status"], line["error"]) == (500, "RuntimeError")
    assert line["at"].startswith("serving.py:")
    assert json.loads(answer.body)["error"]["code"] == "internal"
    assert CANARY not in answer.text


@pytest.mark.parametrize("form", ["json", "text"])
def test_nothing_that_a_client_wrote_is_logged(
    form: LogFormat, capfd: pytest.CaptureFixture[str]
) -> None:
    operations, lines = logging(form)
    headers = {
        "Authorization": f"Bearer {CANARY}",
        "x-api-key": CANARY,
        "User-Agent": CANARY,
        "X-Request-Id": f"{CANARY} and more",
        "Cookie": CANARY,
        "Referer": f"http://localhost/{CANARY}",
    }
    with serving(operations) as client:
        for path in ("/plain/", "/nothing/", "/failing?"):
            client.get(f"{path}{CANARY}", headers, "POST")
            client.get(f"{path}{CANARY}", headers, CANARY.upper())
    assert len(lines.getvalue().splitlines()) == 6
    written = lines.getvalue() + "".join(capfd.readouterr())
    assert CANARY not in written.lower()


def test_people_see_requests_but_not_each_file_that_a_browser_fetched() -> None:
    operations, lines = logging("text")
    with serving(operations) as client:
        client.get("/plain/x")
        client.get("/nothing")
        answer = client.get("/plain/x", method="POST")
        client.get("/failing")
    first, second = lines.getvalue().splitlines()
    said = r"\d\d:\d\d:\d\d POST /plain/{word} 200 · \d+\.\d\d s · (req_\w+)"
    match = re.fullmatch(said, first)
    assert match
    assert match[1] == answer.headers["X-Request-Id"]
    assert "GET /failing 500" in second


def test_what_is_asked_every_few_seconds_is_logged_where_it_fails() -> None:
    operations, lines = logging()
    with serving(operations) as client:
        client.get("/health")
        client.get("/ready")
        operations.drain.begin()
        client.get("/ready")
    assert [(line["route"], line["status"]) for line in lines.values()] == [("/ready", 503)]


def test_a_client_that_left_before_its_answer_began_is_said() -> None:
    operations, lines = logging()
    slow = Slow()
    with serving(operations, Route("/late", slow.late)) as client:
        with client.connect() as connection:
            connection.sendall(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow.begun.wait(20)
        slow.go_on.set()
        assert eventually(lambda: bool(lines.getvalue()))
    (line,) = lines.values()
    assert line["route"] == "/late"
    assert line["status"] is None
    assert line["ended"] == "left"


@pytest.mark.parametrize("failure", [BrokenPipeError(), ValueError("closed")])
def test_a_log_that_nobody_reads_stops_nothing(failure: Exception) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise failure

    with serving(Operations(log=Log("json", Gone()))) as client:
        assert client.get("/plain/x").text == "fine"


def test_control_characters_give_a_terminal_no_orders() -> None:
    lines = Lines()
    Log("text", lines).event("started", {"model": "a\x1b[31mb"})
    assert "\x1b" not in lines.getvalue()
