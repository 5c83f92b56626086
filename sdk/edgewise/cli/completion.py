"""`edgewise completion SHELL`: a script by which a shell completes commands, options and names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from textwrap import shorten

from edgewise.cli.shells import SHELLS, Command, Option, Words

HOW = """\
for now:    eval "$(edgewise completion bash)"        bash and zsh
            edgewise completion fish | source         fish
for good:   put the same line into ~/.bashrc, ~/.zshrc (after compinit) or
            ~/.config/fish/config.fish
"""

MOST_ABOUT = 60
"""Characters of a description."""

FILES, MODELS = Words(files=True), Words(files=True, models=True)

TAKES: Mapping[str, Words] = {
    "FILE": FILES,
    "DIR": FILES,
    "PATH": FILES,
    "MODEL": MODELS,
    "BUNDLE": MODELS,
    "A": MODELS,
    "B": MODELS,
}
"""What completes an argument, by what help texts call it; others are texts and numbers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    parser.epilog = HOW
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[args.shell](commands(args.commands)), end="")
    return 0


def commands(parsers: Mapping[str, argparse.ArgumentParser]) -> list[Command]:
    """What there is to complete after ``edgewise``."""
    return [
        Command(name, _brief(parser.description), _options(parser), _words(parser))
        for name, parser in parsers.items()
    ]


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(
            tuple(action.option_strings),
            _brief(action.help),
            None if action.nargs == 0 else _taken(action),
        )
        for action in _actions(parser)
        if action.option_strings
    )


def _words(parser: argparse.ArgumentParser) -> Words:
    """What completes the words of a command: what the first of them takes, the others as well."""
    return next((_taken(a) for a in _actions(parser) if not a.option_strings), Words())


def _taken(action: argparse.Action) -> Words:
    if action.choices is not None:
        return Words(choices=tuple(map(str, action.choices)))
    return TAKES.get(str(action.metavar), Words())


def _actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    # argparse has no public way to ask; this attribute is as old as the module.
    return parser._actions


def _brief(about: str | None) -> str:
    """A help text, as much of it as stands beside a name."""
    text = (about or "").replace("%%", "%").rstrip(".")
    return shorten(text, MOST_ABOUT, placeholder="…")
