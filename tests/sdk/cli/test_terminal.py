"""A conversation in a real terminal: keys, answers, and how to leave."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cli.talk.history import KeptHistory
from edgewise.cli.talk.saved import load
from edgewise.cli.talk.wrap import WordWrap
from tests.sdk.cli.commands import ROOT, command, environment

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
PROMPT = "›"
COLUMNS = 60


class Terminal:
    """The person's side of a terminal in which a program runs."""

    def __init__(self, descriptor: int, program: subprocess.Popen[bytes]) -> None:
        self.descriptor = descriptor
        self._program = program
        self._seen = b""

    def type(self, typed: str, expected: str) -> str:
        """Type, and read until `expected` and then the next prompt are shown; return all of it.

        Ctrl-C is repeated when nothing happens: Python notices an interrupt that comes between
        the prompt and the wait for a key only with the next key.
        """
        os.write(self.descriptor, typed.encode())
        return self.until(expected, typed) + self.until(PROMPT, "")

    def until(self, expected: str, typed: str) -> str:
        """Read until something is shown; return what was shown before, and that."""
        wanted = expected.encode()
        for _ in range(12):
            while wanted not in self._seen and select.select([self.descriptor], [], [], 5)[0]:
                self._seen += os.read(self.descriptor, 4096)
            if wanted in self._seen:
                end = self._seen.index(wanted) + len(wanted)
                shown, self._seen = self._seen[:end], self._seen[end:]
                return shown.decode(errors="replace").replace("\r\n", "\n")
            if typed == CTRL_C:
                os.write(self.descriptor, typed.encode())
        raise AssertionError(f"no {expected!r} after {typed!r}: {self._seen!r}")

    @property
    def edits_lines(self) -> bool:
        """Whether the terminal shows keys and hands lines on by itself, as for a shell."""
        own = termios.ECHO | termios.ICANON
        return termios.tcgetattr(self.descriptor)[3] & own == own

    def leaves_when_told(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit status."""
        self._program.send_signal(number)
        return self._program.wait(timeout=60)

    def leaves_after(self, typed: str) -> int:
        """Type, and return the exit status."""
        for _ in range(12):
            os.write(self.descriptor, typed.encode())
            try:
                return self._program.wait(timeout=5)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(f"still there after {typed!r}: {self._seen!r}")


@contextmanager
def talking(argv: list[str], stdout: Path | None = None, **more: str) -> Iterator[Terminal]:
    """A command in a terminal of its own, 60 columns wide, once it asks for input.

    Where `stdout` is given, what it prints goes there.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    out = theirs if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    with subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=out,
        stderr=theirs,
        cwd=ROOT,
        # This terminal does not tell where its cursor is.
        env=environment(**{"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **more}),
        start_new_session=True,
        # Opening a terminal in a new session makes it the one whose Ctrl-C counts.
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    ) as program:
        for descriptor in {theirs, out}:
            os.close(descriptor)
        terminal = Terminal(ours, program)
        try:
            # The line's last word: where it wraps depends on the name of the processor.
            terminal.type("", "commands.")
            yield terminal
        finally:
            program.kill()
            os.close(ours)


@pytest.fixture(autouse=True)
def own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def pasted(text: str) -> str:
    """What a terminal sends for a text from the clipboard."""
    return f"\x1b[200~{text}\x1b[201~"


def test_commands_answers_and_exit(bundle: Path) -> None:
    with talking(command("chat", bundle, "--max-tokens", "4"), TERM="dumb") as terminal:
        terminal.type("/help\n", "forget the conversation")
        terminal.type("/nonsense\n", "There is no /nonsense")
        terminal.type("/system Be kind.\n", "A new conversation")
        terminal.type("Hello\n", "first token after")
        terminal.type("/reset\n", "A new conversation")
        terminal.type("\n", "")
        terminal.type("/system " + "the weather " * 150 + "\n", "A new conversation")
        terminal.type("Hello\n", "context holds 256")
        terminal.type("/system\n", "A new conversation")
        terminal.type("Hello\n", "first token after")
        assert terminal.leaves_after("/exit\n") == 0


def test_lines_are_typed_and_pasted_and_answers_wrap(bundle: Path, tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    options = ("--max-tokens", "60", "--temperature", "0", "--ignore-eos")
    with talking(command("chat", bundle, *options)) as terminal:
        shown = terminal.type("one\x1b\rtwo\r", "(cut after 60 tokens: /continue goes on")
        terminal.type(pasted("three\r\n\r\nfour") + " five\r", "first token after")
        terminal.type('"""six\rseven\r"""\r', "first token after")
        terminal.type(f"/save {saved}\r", "Saved 3 turns")
        assert terminal.leaves_after(CTRL_D) == 0
    turns = load(saved).turns
    assert [turn.question for turn in turns] == ["one\ntwo", "three\n\nfour five", "six\nseven"]
    wrap = WordWrap(COLUMNS)
    assert wrap.push(turns[0].answer) + wrap.finish() in shown


@pytest.mark.landing
def test_what_was_typed_is_there_next_time_and_answers_may_go_to_a_file(
    bundle: Path, engine: Engine, tmp_path: Path
) -> None:
    history = KeptHistory(tmp_path / "edgewise/history.jsonl")
    history.append_string("Hello from\nlast time")
    argv = command("chat", bundle, "--max-tokens", "4", "--temperature", "0")
    answers = tmp_path / "answers.txt"
    with talking(argv, answers, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.type(f"{UP}!\r", "first token after")
        terminal.type(CTRL_C, "Ctrl-C again to leave")
        assert terminal.leaves_after(CTRL_C) == 0
    latest = next(iter(KeptHistory(tmp_path / "edgewise/history.jsonl").load_history_strings()))
    assert latest == "Hello from\nlast time!"
    asked = [{"role": "user", "content": latest}]
    assert answers.read_text() == engine.chat(asked, max_tokens=4, temperature=0).text + "\n"


@pytest.mark.landing
def test_interrupts_stop_an_answer_and_do_not_lose_the_conversation(
    bundle: Path, engine: Engine, tmp_path: Path
) -> None:
    asked = [{"role": "user", "content": "Hello"}]
    whole = engine.chat(asked, temperature=0, ignore_eos=True).text
    beginning = WordWrap(COLUMNS).push(whole[:30]).split("\n")[0]
    saved = tmp_path / "talk.json"
    with talking([sys.executable, "-m", "tests.sdk.cli.slow_chat", str(bundle)]) as terminal:
        terminal.type("/show\r", "tokens of context")
        os.write(terminal.descriptor, b"Hello\r")
        terminal.until("Hello", "")
        terminal.until(beginning, "")
        terminal.type(CTRL_C + CTRL_C, "(stopped: /continue goes on)")
        terminal.type(f"/save {saved}\r", "Saved 1 turn")
        (turn,) = load(saved).turns
        assert turn.question == "Hello"
        assert 0 < len(turn.answer) < len(whole)
        assert whole.startswith(turn.answer.rstrip("\ufffd"))
        assert terminal.leaves_after("/bye\r") == 0


def test_a_conversation_that_is_ended_gives_the_terminal_back(bundle: Path) -> None:
    with talking(command("chat", bundle)) as terminal:
        assert not terminal.edits_lines
        assert terminal.leaves_when_told(signal.SIGTERM) == -signal.SIGTERM
        assert terminal.edits_lines
