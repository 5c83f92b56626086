"""`edgewise chat MODEL`: a conversation in the terminal, or a turn for each line of stdin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console

from edgewise.cli.flags import add_loading, add_sampling, load, sampling
from edgewise.cli.lines import add_json, check_json, print_line, print_piece
from edgewise.cli.output import speed, stdout_console
from edgewise.cli.talk.answer import AnswerView, cut, forgotten
from edgewise.cli.talk.conversation import Conversation
from edgewise.cli.talk.typed import messages
from edgewise.console import stderr_console
from edgewise.engine import Engine
from edgewise.request import SPECIAL_TOKENS
from edgewise_runtime.errors import InputError

QUESTION = "Hello! Who are you?"
MOST = "default: generation_config.json of the model, else what the context holds"
_REMEDIES = {
    "nothing": "ask again",
    "stopped": "ask again",
    "full": "begin a new conversation, or compile with a larger --context",
    "limit": "--max-tokens N allows more",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_loading(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument(
        "--question",
        metavar="TEXT",
        help="ask this, print the answer and nothing else to stdout, and leave",
    )
    parser.add_argument(
        "--think",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="have a model think before it answers, or not, where its chat template has the choice",
    )
    parser.add_argument(
        "--special-tokens",
        choices=SPECIAL_TOKENS,
        help="what special tokens are that a message has written out: text, or those tokens, with "
        "which it can end its turn and write another's (default: text)",
    )
    parser.add_argument(
        "--no-history",
        dest="history",
        action="store_false",
        help="do not keep what is typed for the next time",
    )
    add_json(parser)
    add_sampling(parser, MOST)


def run(args: argparse.Namespace) -> int:
    """Talk until there is nothing more to say."""
    check_json(args)
    with load(args) as engine:
        options = {**sampling(args), "special_tokens": args.special_tokens}
        conversation = Conversation(engine, options, system=args.system, think=args.think)
        if args.json:
            _print_json(conversation, _questions(args.question), stream=args.stream)
        elif args.question is not None:
            _ask(engine, conversation, args.question, stdout_console(), stderr_console())
        elif sys.stdin is not None and sys.stdin.isatty():
            # What a terminal needs is loaded for one only.
            from edgewise.cli.talk.repl import talk

            return talk(engine, conversation, stdout_console(), keep=args.history)
        else:
            console = stdout_console()
            for question in _questions(None):
                console.print(f"› {question}", style="bold")
                _ask(engine, conversation, question, console, console)
    return 0


def _ask(
    engine: Engine, conversation: Conversation, question: str, console: Console, beside: Console
) -> None:
    """Print an answer as it comes, and beside it how fast that was and why it was cut."""
    view = AnswerView(console, conversation.opening)
    try:
        completion = conversation.ask(question, view.push)
    finally:
        view.finish()
    beside.print(speed(completion), style="dim")
    if why := cut(completion, engine.context):
        beside.print(f"({why[1]}: {_REMEDIES[why[0]]})", style="dim")
    if completion.dropped_turns:
        beside.print(forgotten(completion.dropped_turns), style="dim")


def _print_json(conversation: Conversation, questions: Iterable[str], *, stream: bool) -> None:
    def show(piece: str) -> None:
        if stream:
            print_piece(piece)

    for question in questions:
        completion = conversation.ask(question, show)
        print_line({**completion.to_json(), "message": completion.message()})


def _questions(given: str | None) -> Iterator[str]:
    """The question given, or those on stdin, or the built-in one where there are none."""
    if given is not None:
        yield given
        return
    asked = False
    try:
        for question in messages(sys.stdin or ()):
            asked = True
            yield question
    except UnicodeDecodeError as error:
        raise InputError(
            f"What comes on stdin is no text in {error.encoding}: {error.reason}.",
            remedy="Pipe text into it, for example: iconv -t UTF-8 FILE | edgewise chat MODEL",
            code="input.text",
        ) from error
    if not asked:
        yield QUESTION
