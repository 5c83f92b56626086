"""`edgewise chat` on a CPU that takes its time: a person can do something while it answers."""

from __future__ import annotations

import sys
from time import sleep

from edgewise import Engine
from edgewise.cli.output import stdout_console
from edgewise.cli.talk.conversation import Conversation
from edgewise.cli.talk.repl import talk
from tests.sdk.gate import Gate


class Slow(Gate):
    """Takes a tenth of a second for each step."""

    def pass_through(self) -> None:
        sleep(0.1)


if __name__ == "__main__":
    with Engine(sys.argv[1], device=Slow()) as engine:
        conversation = Conversation(engine, {"temperature": 0, "ignore_eos": True})
        sys.exit(talk(engine, conversation, stdout_console(), keep=False))
