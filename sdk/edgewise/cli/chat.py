"""`edgewise chat MODEL`: a conversation in the terminal, or one turn per line of stdin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress

from rich.console import Console

from edgewise.cli.flags import add_loading, add_sampling, load, sampling
from edgewise.cli.output import speed, stdout_console
from edgewise.engine import Engine
from edgewise.options import SamplingKeywords
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.errors import InputError

QUESTION = "Hello! Who are you?"
MAX_TOKENS = 512
PROMPT = "› "
HELP = """\
/reset          forget the conversation
/system TEXT    begin anew with TEXT as the system prompt
/help           show this
/exit           leave (also Ctrl-D, or Ctrl-C twice)
Ctrl-C stops an answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_loading(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument(
        "--question", metavar="TEXT", help="ask this and leave (default without any input: a hello)"
    )
    add_sampling(parser)


def run(args: argparse.Namespace) -> int:
    """Talk until there is nothing more to say."""
    options = sampling(args)
    if args.max_tokens is None:
        options["max_tokens"] = MAX_TOKENS
    console = stdout_console()
    with load(args) as engine:
        conversation = Conversation(engine, options, console, args.system)
        if args.question is None and sys.stdin is not None and sys.stdin.isatty():
            what = f"{engine.name}: {engine.program} on {engine.device}."
            console.print(f"{what} /help lists commands.", style="dim", markup=False)
            return _interact(conversation, console)
        for question in _questions(args.question):
            console.print(f"{PROMPT}{question}", style="bold")
            conversation.ask(question)
    return 0


class Conversation:
    """The messages so far; when they no longer fit, the oldest are forgotten."""

    def __init__(
        self, engine: Engine, options: SamplingKeywords, console: Console, system: str | None
    ) -> None:
        self._engine = engine
        self._options = options
        self._console = console
        self._first: list[dict[str, str]] = []
        self._turns: list[dict[str, str]] = []
        self.begin(system)

    def begin(self, system: str | None) -> None:
        """Start anew with this system prompt."""
        self._first = [{"role": "system", "content": system}] if system else []
        self.reset()

    def reset(self) -> None:
        """Forget what was said."""
        self._turns = []

    def ask(self, question: str) -> Completion:
        """Print the answer as it comes, then how fast it was; Ctrl-C ends the answer early.

        Turns that no longer fit are forgotten, which is said.
        """
        asked = [*self._turns, {"role": "user", "content": question}]
        stream = self._engine.chat(
            self._first + asked, stream=True, context_policy="drop", **self._options
        )
        try:
            for piece in stream:
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            stream.close()
        completion = stream.completion
        print()
        note = "(stopped) " if completion.finish_reason == "cancelled" else ""
        self._console.print(f"{note}{speed(completion)}", style="dim")
        if completion.dropped_turns:
            self._console.print(_forgotten(completion.dropped_turns), style="dim")
        asked.append({"role": "assistant", "content": completion.text})
        self._turns = asked[2 * completion.dropped_turns :]
        return completion


def _forgotten(turns: int) -> str:
    if turns == 1:
        return "(the oldest turn no longer fits and is forgotten)"
    return f"(the {turns} oldest turns no longer fit and are forgotten)"


def _questions(given: str | None) -> Iterator[str]:
    """The question given, or stdin's lines, or the built-in one where there are none."""
    if given is not None:
        yield given
        return
    empty = True
    for line in sys.stdin or ():
        if line.strip():
            empty = False
            yield line.strip()
    if empty:
        yield QUESTION


def _interact(conversation: Conversation, console: Console) -> int:
    with suppress(ImportError):
        import readline  # noqa: F401 (gives `input` history and editing)
    interrupted = False
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            console.print()
            return 0
        except KeyboardInterrupt:
            console.print()
            if interrupted:
                return 0
            interrupted = True
            console.print("Ctrl-C again to leave.", style="dim")
            continue
        if line == "/exit":
            return 0
        interrupted = False
        if line.startswith("/"):
            _command(conversation, console, line)
        elif line:
            try:
                interrupted = conversation.ask(line).finish_reason == "cancelled"
            except InputError as error:
                console.print(f"{error.message} {error.remedy}", style="red")


def _command(conversation: Conversation, console: Console, line: str) -> None:
    name, _, rest = line.partition(" ")
    if name == "/reset":
        conversation.reset()
    elif name == "/system":
        conversation.begin(rest.strip() or None)
    elif name != "/help":
        console.print(f"There is no {name}.", style="red")
    if name in ("/reset", "/system"):
        console.print("A new conversation.", style="dim")
    else:
        console.print(HELP, style="dim")
