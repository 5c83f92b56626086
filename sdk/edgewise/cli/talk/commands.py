"""Lines that begin with a slash: what there is, and what each does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgewise.answers import Completion
from edgewise.cli.talk.conversation import Conversation, Show
from edgewise.cli.talk.saved import load, save
from edgewise.cli.talk.settings import all_values, set_value
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten


class Talk(Protocol):
    """What commands act on."""

    @property
    def conversation(self) -> Conversation:
        """What was said."""

    @property
    def model(self) -> str:
        """The model's name."""

    def say(self, text: str) -> None:
        """Tell the person something beside the conversation."""

    def answer(self, ask: Callable[[Show], Completion], before: str) -> None:
        """Show the answer that `ask` gives; it has begun with `before`."""

    def about(self) -> list[str]:
        """What runs, a line each."""

    def leave(self) -> None:
        """End the conversation."""


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        names: the first is the one that help shows.
        rest: what is typed after it, for help.
    """

    names: tuple[str, ...]
    rest: str
    about: str
    act: Callable[[Talk, str], None]


def _help(talk: Talk, rest: str) -> None:
    width = max(len(_usage(command)) for command in COMMANDS)
    lines = [f"{_usage(command):<{width}}  {command.about}" for command in COMMANDS]
    talk.say("\n".join([*lines, *_KEYS]))


def _clear(talk: Talk, rest: str) -> None:
    talk.conversation.reset()
    talk.say("A new conversation.")


def _system(talk: Talk, rest: str) -> None:
    talk.conversation.replace(rest, ())
    talk.say("A new conversation.")


def _set(talk: Talk, rest: str) -> None:
    if rest:
        talk.say(set_value(talk.conversation, rest))
    else:
        _show(talk, rest)


def _show(talk: Talk, rest: str) -> None:
    values = all_values(talk.conversation)
    width = max(len(name) for name, _ in values)
    talk.say("\n".join([*talk.about(), *(f"{name:<{width}}  {now}" for name, now in values)]))


def _regenerate(talk: Talk, rest: str) -> None:
    talk.answer(talk.conversation.regenerate, talk.conversation.opening)


def _continue(talk: Talk, rest: str) -> None:
    cut = [turn.answer for turn in talk.conversation.turns[-1:] if turn.tokens]
    talk.answer(talk.conversation.proceed, "".join(cut))


def _save(talk: Talk, rest: str) -> None:
    path = _path(rest, "/save")
    conversation = talk.conversation
    save(path, talk.model, conversation.system, conversation.turns)
    talk.say(f"Saved {counted(len(conversation.turns))} to {path}.")


def _load(talk: Talk, rest: str) -> None:
    path = _path(rest, "/load")
    saved = load(path)
    talk.conversation.replace(saved.system, saved.turns)
    talk.say(f"Loaded {counted(len(saved.turns))} from {path}.")


def _bye(talk: Talk, rest: str) -> None:
    talk.leave()


COMMANDS: tuple[Command, ...] = (
    Command(("/set",), "NAME VALUE", "change how it answers; alone: what is set", _set),
    Command(("/show",), "", "what runs, and what is set", _show),
    Command(("/regenerate", "/retry"), "", "answer the last question anew", _regenerate),
    Command(("/continue",), "", "go on with an answer that was cut", _continue),
    Command(("/save",), "FILE", "write the conversation to a file", _save),
    Command(("/load",), "FILE", "go on with a conversation from a file", _load),
    Command(("/clear", "/reset", "/new"), "", "forget the conversation", _clear),
    Command(("/system",), "TEXT", "begin anew with TEXT as the system prompt", _system),
    Command(("/help", "/?"), "", "show this", _help),
    Command(("/bye", "/exit", "/quit"), "", "leave (also Ctrl-D, or Ctrl-C twice)", _bye),
)
_KEYS = (
    "Ctrl-C stops an answer. Alt-Enter begins a new line,",
    'and so does Enter between """ and """.',
)
_BY_NAME = {name: command for command in COMMANDS for name in command.names}


def run_command(talk: Talk, typed: str) -> None:
    """Do what a line says that begins with a slash.

    Raises:
        InputError: ``input.command`` where there is no such command; else as the command does.
    """
    name, _, rest = typed.partition(" ")
    command = _BY_NAME.get(name)
    if command is None:
        raise InputError(
            f"There is no {shorten(name)[1:-1]}.",
            remedy="/help lists what there is; with a space before it, it is sent to the model.",
            code="input.command",
        )
    command.act(talk, rest.strip())


def _usage(command: Command) -> str:
    return f"{command.names[0]} {command.rest}".rstrip()


def _path(typed: str, command: str) -> Path:
    if not typed:
        raise InputError(
            "The file has no name.", remedy=f"For example: {command} talk.json", code="input.file"
        )
    return Path(typed).expanduser()


def counted(count: int) -> str:
    """So many turns, in words."""
    return "1 turn" if count == 1 else f"{count} turns"
