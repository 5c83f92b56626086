"""The commands of a shell block, and what can be told of each without running it."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from json import loads
from pathlib import Path

from packaging.requirements import Requirement

from tests.docs.blocks import ROOT

_NEXT = ("&&", ";", "||")
_VARIABLE = re.compile(r"[A-Z_]+=.*", re.DOTALL)
_BIN = ".venv/bin/"
_FLAG = re.compile(r"--[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Command:
    """One program that a line starts.

    Attributes:
        words: the program's name and its arguments.
        typed: what is piped into it, where that is a text on the line; None for a terminal's input.
        folder: where it runs, relative to the repository.
    """

    words: tuple[str, ...]
    typed: str | None = None
    folder: Path = Path()

    @property
    def program(self) -> str:
        """The first word, without the virtual environment that it lies in."""
        return self.words[0].rpartition(_BIN)[2]


def commands(text: str) -> Iterator[Command]:
    """The commands of a block, in order; ``cd`` and ``echo`` become part of what follows them."""
    for line in text.replace("\\\n", " ").splitlines():
        folder, typed = Path(), None
        for words, separator in _split(line):
            if words[0] == "cd":
                folder = folder / words[1]
            elif words[0] == "echo" and separator == "|":
                typed = " ".join(words[1:]) + "\n"
            else:
                yield Command(words, typed, folder)
                typed = None


def _split(line: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words of each command of a line, and what separates it from the next."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words: list[str] = []
    for word in [*reader, ";"]:
        if word not in (*_NEXT, "|"):
            words.append(word)
            continue
        plain = _unredirected(words)
        while plain and _VARIABLE.fullmatch(plain[0]):
            plain = plain[1:]
        if plain:
            yield plain, word
        words = []


def _unredirected(words: list[str]) -> tuple[str, ...]:
    """The words before the first redirection: what stands behind it is a file."""
    return tuple(takewhile(lambda word: word[:1] not in "<>", words))


def check(command: Command) -> None:
    """Hold a command other than ours to what is in the repository.

    Raises AssertionError where it names what is not there.
    """
    assert command.program in CHECKS, f"nothing is known of {command.program!r}: mark it not-run"
    CHECKS[command.program](command)


def _make(command: Command) -> None:
    for word in command.words[1:]:
        name, assigned, _ = word.partition("=")
        if assigned:
            assert f"$({name})" in _makefile() or f"$(if $({name})" in _makefile(), word
        else:
            assert word in _targets(), f"make has no {word}"


@cache
def _makefile() -> str:
    return (ROOT / "Makefile").read_text("utf-8")


@cache
def _targets() -> set[str]:
    """What `make` can make, with variables filled in."""
    variables = dict(re.findall(r"^(\w+)\s*[:?]?= *(.+)$", _makefile(), re.MULTILINE))

    def filled(text: str) -> str:
        known = re.sub(r"\$\((\w+)\)", lambda m: variables.get(m[1], m[0]), text)
        return known if known == text else filled(known)

    heads = re.findall(r"^([^\s#:=][^:=\n]*):(?!=)", _makefile(), re.MULTILINE)
    return {target for head in heads for target in filled(head).split()}


def _pip(command: Command) -> None:
    for word in command.words[2:]:
        path = word.partition("[")[0]
        if path.startswith("."):
            project = ROOT / command.folder / path / "pyproject.toml"
            assert project.is_file(), f"{path} is nothing to install"
            word = word.replace(path, "edgewise")
        elif word.startswith("-"):
            continue
        wanted = Requirement(word)
        if wanted.name == "edgewise":
            assert wanted.extras <= _extras(), f"{word}: extras are {sorted(_extras())}"


@cache
def _extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])


def _python(command: Command) -> None:
    first, *rest = command.words[1:]
    if first == "-m" and rest[0] == "pytest":
        _files(replace(command, words=("pytest", *rest[1:])))
        return
    module = first == "-m"
    file = Path(*rest[0].split(".")).with_suffix(".py") if module else Path(first)
    source = ROOT / command.folder / file
    assert source.is_file(), f"there is no {file}"
    # Its options may be those of a module beside it.
    beside = "".join(path.read_text("utf-8") for path in sorted(source.parent.glob("*.py")))
    for flag in _FLAG.findall(" ".join(rest)):
        assert f'"{flag}"' in beside, f"{file} has no {flag}"


def _files(command: Command) -> None:
    """Arguments that look like paths are there; capital letters stand for the reader's own."""
    for word in command.words[1:]:
        if "/" in word and not word.isupper():
            assert (ROOT / command.folder / word).exists(), f"there is no {word}"


def _npm(command: Command) -> None:
    if command.words[1] == "run":
        package = loads((ROOT / command.folder / "package.json").read_text("utf-8"))
        script = next(word for word in command.words[2:] if not word.startswith("-"))
        assert script in package["scripts"], f"package.json has no {script}"


def _tool(command: Command) -> None:
    """A program that the locked packages bring along."""
    lock = (ROOT / "requirements/dev.lock").read_text("utf-8").replace("_", "-")
    assert f"\n{command.program}==" in lock, f"{command.program} is no locked package"


def _script(command: Command) -> None:
    assert (ROOT / command.folder / command.words[0]).is_file()


CHECKS: dict[str, Callable[[Command], None]] = {
    ".ci/run": _script,
    "make": _make,
    "node": _files,
    "npm": _npm,
    "npx": _files,
    "pip": _pip,
    "pre-commit": _tool,
    "python": _python,
}
"""By program: what a command of it may name."""
