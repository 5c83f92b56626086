"""A conversation from its first line to its last, typed by a list of lines."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from edgewise import Engine
from edgewise.cli.talk.commands import COMMANDS
from edgewise.cli.talk.conversation import Conversation
from edgewise.cli.talk.repl import Repl, stopping
from edgewise.cli.talk.saved import load

Typed = str | type[BaseException]
Said = Callable[..., str]


@pytest.fixture
def conversation(engine: Engine) -> Conversation:
    return Conversation(engine, {"max_tokens": 6, "temperature": 0, "ignore_eos": True})


@pytest.fixture
def said(engine: Engine, conversation: Conversation, console: Console, shown: io.StringIO) -> Said:
    """``said("Hello", "/save talk.json")``: type lines, return what was shown."""

    def talk(*typed: Typed) -> str:
        lines: Iterator[Typed] = iter(typed)

        def read() -> str:
            line = next(lines, EOFError)
            if isinstance(line, str):
                return line
            raise line

        before = len(shown.getvalue())
        assert Repl(engine, conversation, console, console).run(read) == 0
        assert next(lines, None) is None
        return shown.getvalue()[before:]

    return talk


def test_an_answer_that_is_cut_says_so_and_how_to_go_on(
    said: Said, conversation: Conversation
) -> None:
    first = said("Hello")
    assert "6 tokens · " in first
    assert "(cut after 6 tokens: /continue goes on" in first
    said("/continue")
    assert len(conversation.turns) == 1
    assert len(conversation.turns[0].tokens) == 12
    said("/set max-tokens default")
    assert "the context of 256 tokens is full: /clear begins anew" in " ".join(said("On!").split())


def test_answers_are_replaced(said: Said, conversation: Conversation) -> None:
    said("Hello", "/set temperature 1.5", "/regenerate")
    assert [turn.question for turn in conversation.turns] == ["Hello"]


@pytest.mark.parametrize("command", ["/clear", "/reset", "/new"])
def test_a_conversation_is_forgotten(said: Said, conversation: Conversation, command: str) -> None:
    assert "A new conversation." in said("Hello", command)
    assert conversation.turns == []


def test_a_conversation_is_saved_and_loaded(
    said: Said, conversation: Conversation, tmp_path: Path
) -> None:
    file = tmp_path / "talk with me.json"
    shown = said("/system Be kind.", '"""one\n two"""', f"/save {file}")
    assert "Saved 1 turn to " in shown
    turns = conversation.turns
    assert load(file).turns[0].question == "one\n two"
    assert "Loaded 1 turn from " in said("/system", f"/load {file}")
    assert conversation.system == "Be kind."
    assert [(t.question, t.answer) for t in conversation.turns] == [
        (t.question, t.answer) for t in turns
    ]
    assert "not cut" in said("/continue")  # whose tokens are not in the file


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("/nonsense", "There is no /nonsense."),
        ("/set nothing 3", "There is no setting 'nothing'."),
        ("/save", "The file has no name. For example: /save talk.json"),
        ("/load", "For example: /load talk.json"),
        ("/load missing.json", "missing.json"),
        ("/regenerate", "no answer yet"),
        ("/continue", "no answer yet"),
        ("the weather " * 200, "too long: the context holds 256"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_conversation_goes_on(
    said: Said, conversation: Conversation, typed: str, words: str
) -> None:
    shown = " ".join(said(typed, "Hello").split())
    assert words in shown
    assert [turn.question for turn in conversation.turns] == ["Hello"]


def test_help_names_every_command_and_fits_sixty_columns(said: Said) -> None:
    shown = said("/help")
    assert all(command.names[0] in shown for command in COMMANDS)
    assert max(map(len, shown.splitlines())) <= 60
    assert len(shown.splitlines()) == len(COMMANDS) + 2
    assert said("/?") == shown


@pytest.mark.parametrize("command", ["/show", "/set"])
def test_what_runs_and_what_is_set_is_shown(said: Said, engine: Engine, command: str) -> None:
    shown = said(command)
    assert engine.program in shown
    assert "256 tokens of context" in shown
    assert ["max-tokens", "6"] in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("word", ["/bye", "/exit", "/quit", EOFError])
def test_there_are_many_ways_to_leave(said: Said, word: Typed) -> None:
    said(word)


def test_ctrl_c_twice_leaves_and_once_does_not(said: Said, conversation: Conversation) -> None:
    shown = said(KeyboardInterrupt, "Hello", KeyboardInterrupt, KeyboardInterrupt)
    assert shown.count("Ctrl-C again to leave.") == 2
    assert len(conversation.turns) == 1


def test_a_message_may_begin_with_a_slash_after_a_space(
    said: Said, conversation: Conversation
) -> None:
    said(" /etc is what?", "", "  ")
    assert [turn.question for turn in conversation.turns] == ["/etc is what?"]


def test_ctrl_c_stops_an_answer_however_often_it_comes(engine: Engine, console: Console) -> None:
    conversation = Conversation(engine, {"seed": 1, "ignore_eos": True})
    kept = signal.getsignal(signal.SIGINT)

    def interrupt(piece: str) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)

    with stopping(conversation.stop):
        signal.raise_signal(signal.SIGINT)  # before anything is asked
        done = conversation.ask("Hello", interrupt)
        signal.raise_signal(signal.SIGINT)
    assert done.finish_reason == "cancelled"
    assert conversation.turns[0].answer == done.text
    assert signal.getsignal(signal.SIGINT) is kept
