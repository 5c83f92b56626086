"""Servers that are loaded: how they are started, when they are ready, what they take."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep

from serving.client import Server

HOST = "127.0.0.1"
READY_S, LOOK_S, LEAVES_S = 120.0, 0.1, 15.0
SLOTS = 8
"""Requests that llama.cpp's server computes together: each has its share of the context."""


def our_line(bundle: Path, threads: int) -> list[str]:
    """How edgewise's server is started; a port is added."""
    edgewise = str(Path(sys.executable).with_name("edgewise"))
    options = ["--threads", str(threads), "--log-format", "none", "--keep-alive", "-1"]
    return [edgewise, "serve", str(bundle), "--host", HOST, *options]


def peer_line(
    prefix: Path, file: Path, threads: int, context: int, more: Sequence[str] = ()
) -> list[str]:
    """How llama.cpp's server is started; continuous batching and its prompt cache are on anyway.

    Args:
        context: the most tokens of a request; every slot has so many.
    """
    counts = ["--threads", str(threads), "--threads-batch", str(threads), "--parallel", str(SLOTS)]
    asked = ["--ctx-size", str(context * SLOTS), "--alias", file.stem, "--log-disable", "--no-ui"]
    server = str(prefix.absolute() / "bin/llama-server")
    return [server, "--model", str(file), "--host", HOST, *counts, *asked, *more]


@contextmanager
def started(
    line: Sequence[str], model: str, health: str, log: Path
) -> Iterator[tuple[Server, int]]:
    """A server that answers at the path ``health``, and its process's id; it is ended afterwards.

    Raises RuntimeError where it ends or takes too long; ``log`` has its last words.
    """
    server = Server(HOST, free_port(), model)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*line, "--port", str(server.port)], stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
        try:
            _wait(server, health, process, log)
            yield server, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(LEAVES_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server((HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _wait(server: Server, health: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = monotonic() + READY_S
    while process.poll() is None and monotonic() < deadline:
        if _answers(server, health):
            return
        sleep(LOOK_S)
    raise RuntimeError(f"{server.model}'s server is not ready: {log.read_text()[-2000:]}")


def _answers(server: Server, path: str) -> bool:
    connection = HTTPConnection(server.host, server.port, timeout=READY_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of all that it started and that is still there."""
    found, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        found[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    family, grown = {process}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return sum(found.get(one, 0.0) for one in family)
