"""Listening, ending, and many clients at once."""

from __future__ import annotations

import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgewise.server.app import make_app
from edgewise.server.resource import in_memory
from edgewise.server.run import MAX_CONNECTIONS, in_background, listen, url_of
from edgewise_runtime.errors import InputError
from tests.sdk.cli.commands import command, environment
from tests.sdk.server.client import Client


def test_a_port_in_use_is_said_with_what_to_do() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}: Address already in use") as error:
            listen("127.0.0.1", port)
    assert error.value.code == "serve.port"
    assert "--port" in error.value.remedy


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 300, "a..b", "1.2.3.4.5"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(InputError) as error:
        listen(host, 0)
    assert error.value.code == "serve.host"
    assert error.value.remedy


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "127.0.0.1")],
)
def test_the_url_is_one_this_machine_can_open(host: str, shown: str) -> None:
    with listen(host, 0) as listening:
        assert url_of(listening) == f"http://{shown}:{listening.getsockname()[1]}/"


def test_many_clients_are_served_and_more_are_told_to_come_back() -> None:
    app = make_app({}, {"": in_memory(b"hello", ".txt")})
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        client = Client(url)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.get("/").body, range(64)))
        assert answers == [b"hello"] * 64
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(client.connect())
            assert client.get("/").status == 503
        assert wait_for_answer(client)


def wait_for_answer(client: Client) -> bool:
    """Whether the server answers again once it has noticed that others left."""
    return any(client.get("/").status == 200 for _ in range(100))


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_when_told_to_although_a_client_holds_on(
    both: Path, how: signal.Signals
) -> None:
    process = subprocess.Popen(
        command("serve", both, "--port", 0),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[1]
    client = Client(url)
    assert client.get("/api/bundles").status == 200
    with client.connect() as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(10)
        process.send_signal(how)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == (0 if how == signal.SIGINT else -how)
    assert errors == ""
    with pytest.raises(ConnectionError), socket.create_connection((client.host, client.port)):
        raise AssertionError("it still listens")
