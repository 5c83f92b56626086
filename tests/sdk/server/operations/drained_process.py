"""Serves one stream that ends when a line comes on stdin. Says its address first."""

from __future__ import annotations

import sys
import threading

from starlette.routing import Route

from edgewise.server.operations.drain import Drain
from edgewise.server.operations.operations import Operations
from edgewise.server.run import listen, run, url_of
from tests.sdk.server.operations.serving import Slow, app_of


def main() -> None:
    operations, slow = Operations(drain=Drain(float(sys.argv[1]))), Slow()

    def wait() -> None:
        if sys.stdin.readline():
            slow.go_on.set()

    threading.Thread(target=wait, daemon=True).start()
    with listen("127.0.0.1", 0) as listening:
        print(url_of(listening), flush=True)
        run(app_of(operations, [Route("/slow", slow.answer)]), listening, operations=operations)


main()
