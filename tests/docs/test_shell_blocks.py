"""Every line of the shell blocks: ours are read by the parser, and run where that is quick."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from edgewise.cli.main import main, parse
from tests.docs.blocks import blocks
from tests.docs.shell import Command, check, commands

LINES = [(block, command) for block in blocks("sh") for command in commands(block.text)]
OURS = [(block, command) for block, command in LINES if command.program == "edgewise"]
OTHERS = [(block, command) for block, command in LINES if command.program != "edgewise"]

QUICK = {"chat", "inspect", "ls", "run"}
"""Commands that end by themselves within a second."""
SLOW = {"--cost", "--device", "--draft"}
"""Options that measure the machine, or want what it may not have."""


def named(lines: list[tuple[object, Command]]) -> dict[str, Command]:
    """Each command once, by the place where it is first shown."""
    once = {command: f"{block} {' '.join(command.words)}" for block, command in reversed(lines)}
    return {name: command for command, name in once.items()}


def quick(command: Command) -> bool:
    """Whether a command is run: on the bundles in the reader's ``dist/``, or on nothing."""
    words = command.words[1:]
    models = words[1:2]
    return (
        words[0] in QUICK
        and not SLOW & set(words)
        and all(model.startswith("dist/") for model in models)
    )


def parametrized(lines: list[tuple[object, Command]]) -> pytest.MarkDecorator:
    cases = named(lines)
    return pytest.mark.parametrize("command", cases.values(), ids=cases.keys())


@parametrized(OURS)
def test_the_parser_takes(command: Command) -> None:
    parse(command.words[1:])


@pytest.mark.quick(cases=3)
@parametrized([(block, command) for block, command in OURS if quick(command)])
def test_it_runs(
    command: Command,
    reader: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(reader)
    monkeypatch.setattr("sys.stdin", io.StringIO(command.typed or ""))
    assert main(command.words[1:]) == 0, capsys.readouterr().err


@parametrized(OTHERS)
def test_it_names_what_is_there(command: Command) -> None:
    check(command)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("make nonsense", "make has no nonsense"),
        ("make bench NONSENSE=1", "NONSENSE=1"),
        ('pip install ".[nonsense]"', "extras are"),
        ("pip install ./nonsense", "nothing to install"),
        ("python bench/nonsense.py", "there is no bench/nonsense.py"),
        ("python bench/cpu.py --nonsense", "has no --nonsense"),
        ("python -m tools.nonsense", "there is no tools/nonsense.py"),
        (".venv/bin/python -m pytest tests/nonsense.py", "there is no tests/nonsense.py"),
        ("cd web && npm run nonsense", "package.json has no nonsense"),
        ("cd web && npx vitest run tests/nonsense", "there is no tests/nonsense"),
        ("nonsense", "nothing is known of 'nonsense'"),
    ],
)
def test_what_is_not_there_is_told(line: str, said: str) -> None:
    [command] = commands(line)
    with pytest.raises(AssertionError, match=said):
        check(command)


def test_a_line_is_read_as_a_shell_does() -> None:
    assert list(commands('A=1 x "b c" > file # note\ncd web && y; echo hi | z -1 \\\n --two')) == [
        Command(("x", "b c")),
        Command(("y",), None, Path("web")),
        Command(("z", "-1", "--two"), "hi\n", Path("web")),
    ]
