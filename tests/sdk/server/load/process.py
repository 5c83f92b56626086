"""`edgewise serve` in a process of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import children
from tests.sdk.cli.commands import command, environment
from tests.sdk.server.load.conftest import CONTEXT

CHILD = "edgewise.hosting.child"


@dataclass(frozen=True)
class Serving:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str

    @property
    def child(self) -> int:
        (found,) = children(CHILD, self.process.pid)
        return found

    def peak(self) -> int:
        """The most bytes that the server itself had at once, since `forget_peak`."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (found,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(found) << 10

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@contextmanager
def serving(bundle: Path) -> Iterator[Serving]:
    with subprocess.Popen(
        command(
            "serve",
            bundle,
            "--port",
            0,
            "--context",
            CONTEXT,
            "--log-format",
            "none",
            "--drain-seconds",
            600,
        ),
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield Serving(process, found[0])
        finally:
            process.kill()
            process.stdout.close()
