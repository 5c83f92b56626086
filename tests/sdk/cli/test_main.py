"""A command line means the same wherever its options stand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise import Engine
from edgewise.cli.main import COMMANDS, parse
from tests.sdk.cli.conftest import Run

LINES: dict[str, tuple[list[str], list[list[str]]]] = {
    "pull": (["ORG/REPO:Q4_K_M"], []),
    "compile": (["MODEL"], [["-o", "out"], ["--quant", "q4"], ["--calibrate", "text"]]),
    "chat": (["MODEL"], [["--question", "Why?"], ["--max-tokens=5"], ["--trust"]]),
    "run": (["MODEL", "Hi there"], [["--max-tokens", "5"], ["--stop", "a"], ["--json"]]),
    "serve": (["one", "two"], [["--port", "0"], ["--tls"]]),
    "prefix": (["BUNDLE", "FILE"], [["--name", "NAME"], ["--plain"]]),
    "export": (["MODEL"], [["-o", "out"], ["--quant", "q0f16"]]),
    "inspect": (["BUNDLE"], [["--plan", "decode"], ["--cost"]]),
    "diff": (["A", "B"], [["--tolerance", "0.1"], ["--all"]]),
    "eval": (["A", "B"], [["--text", "FILE"], ["--tokens", "9"]]),
    "ls": ([], []),
    "rm": (["one", "two"], [["-y"]]),
    "doctor": (["BUNDLE"], []),
    "completion": (["bash"], []),
}
"""Words of each command, and options with what they take."""


def interleaved(words: list[str], options: list[list[str]]) -> Iterator[list[str]]:
    """Every way to put the options, in their order, before, between and after the words."""
    if not words or not options:
        yield [*words, *(part for option in options for part in option)]
        return
    for rest in interleaved(words[1:], options):
        yield [words[0], *rest]
    for rest in interleaved(words, options[1:]):
        yield [*options[0], *rest]


def meaning(command: str, line: list[str]) -> dict[str, object]:
    found = vars(parse([command, *line]))
    del found["commands"]  # the parsers themselves, made anew each time
    found.pop("settings", None)  # their flags, as variables of the environment
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_options_may_stand_anywhere(command: str) -> None:
    words, options = LINES[command]
    plain, *others = interleaved(words, options)
    expected = meaning(command, plain)
    for line in others:
        assert meaning(command, line) == expected, line


def test_an_option_may_stand_between_a_model_and_its_prompt(
    edgewise: Run, bundle: object, engine: Engine
) -> None:
    expected = engine.generate("Hi", max_tokens=5, temperature=0, ignore_eos=True).text
    options = ("--temperature", 0, "--ignore-eos")
    assert edgewise("run", bundle, "--max-tokens", 5, "Hi", *options) == f"{expected}\n"


@pytest.mark.parametrize("prompt", ["--dashed", "-x", "--max-tokens"])
def test_what_stands_behind_two_dashes_is_no_option(prompt: str) -> None:
    args = parse(["run", "MODEL", "--max-tokens", "5", "--", prompt])
    assert (args.model, args.max_tokens, args.prompt) == ("MODEL", 5, prompt)


@pytest.mark.parametrize("prompt", ["-3 degrees", "- one", "-5"])
def test_a_prompt_may_begin_with_a_dash_where_no_option_does(prompt: str) -> None:
    assert parse(["run", "MODEL", "--seed", "1", prompt]).prompt == prompt


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["run", "--max-tokens", "5"], "required: MODEL"),
        (["run", "MODEL", "a", "--seed", "1", "b"], "unrecognized arguments: b"),
        (["run", "MODEL", "--no-such", "a"], "unrecognized arguments: --no-such"),
        (["compile", "MODEL", "--bits", "5", "--quant", "q4"], "not allowed with"),
        (["eval", "A", "B"], "required: --text"),
        (["rm", "-y"], "required: BUNDLE"),
        (["completion", "cmd"], "invalid choice: 'cmd'"),
    ],
)
def test_wrong_usage_is_said_with_the_usage_of_the_command(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(line)
    written = capsys.readouterr().err
    assert written.startswith(f"usage: edgewise {line[0]} [-h]")
    assert said in written


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_names_its_words(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        parse([command, "--help"])
    written = capsys.readouterr().out
    assert written.startswith(f"usage: edgewise {command} [-h]")
    wanted = {"run": "MODEL", "rm": "BUNDLE", "completion": "SHELL", "diff": "A"}
    assert wanted.get(command, "") in written
