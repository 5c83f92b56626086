"""The command line: which command it is, and what happens when one fails.

Exit statuses: 0 fine, 1 an error (said in one sentence, with what to do about it), 2 wrong usage,
130 interrupted. SIGTERM and SIGHUP end the process after it has cleaned up.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from rich.text import Text

from edgewise.cli.ending import ended_by_signals
from edgewise.console import stderr_console
from edgewise_runtime.errors import EdgewiseError, memory_errors
from edgewise_runtime.files import storage_error
from edgewise_runtime.installed import VERSION
from edgewise_runtime.shown import shown

COMMANDS: dict[str, str] = {
    "pull": "fetch a model from a hub",
    "compile": "compile a checkpoint to a bundle",
    "chat": "talk with a model",
    "run": "continue one prompt",
    "serve": "offer bundles and the chat app to browsers",
    "prefix": "ship a prompt's KV pages with a bundle",
    "export": "write a model as MLC LLM and WebLLM load it",
    "inspect": "show what is in a bundle and what it costs",
    "diff": "find the first kernel at which two programs depart",
    "eval": "score a text, and compare with another model",
    "ls": "list bundles",
    "rm": "delete bundles",
    "doctor": "check this machine and installation",
    "completion": "complete commands in a shell with the tab key",
}
"""What each is about. A module is named as its command, and loads where it is wanted."""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status. Wrong usage raises SystemExit with status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # of a terminal that lacks some characters
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        with ended_by_signals(), memory_errors("running the command"):
            status: int = args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence()  # the reader has gone: nobody is left to be told
        return 1
    except EdgewiseError as error:
        _debug()
        _report(error.message, error.remedy, error.code)
        return 1
    except OSError as error:
        _debug()
        failed = storage_error(error, "use", Path(error.filename or "the standard output"))
        _report(failed.message, failed.remedy, failed.code)
        _silence()
        return 1
    except Exception as error:
        _debug()
        _report(
            f"Something went wrong inside edgewise: {type(error).__name__}: {error}",
            "Set EDGEWISE_DEBUG=1 to see where.",
            "internal",
        )
        return 1


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read a command line; options may stand before, between and after the words of a command."""
    if words and words[0] in COMMANDS:
        # `completion` writes all of them down.
        _, commands = _parsers(COMMANDS if words[0] == "completion" else words[:1])
        return commands[words[0]].parse_intermixed_args(words[1:])
    parser, _ = _parsers(COMMANDS)
    return parser.parse_args(words)  # help, the version, or wrong usage


def _parsers(
    names: Iterable[str],
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """What reads a command line that names no command, and what reads those of these commands."""
    parser = argparse.ArgumentParser(
        prog="edgewise",
        description="Compile language models with Apache TVM, and run them.",
        epilog="`edgewise COMMAND --help` tells more about each.",
    )
    parser.add_argument("--version", action="version", version=f"edgewise {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for name in names:
        about = COMMANDS[name]
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}."
        )
        module = import_module(f"edgewise.cli.{name}")
        module.add_arguments(command)
        command.set_defaults(run=module.run, commands=commands.choices)
    return parser, commands.choices


def _silence() -> None:
    """Leave what stdout could not take, so that Python does not try again at exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _debug() -> None:
    if os.environ.get("EDGEWISE_DEBUG", "") not in ("", "0"):
        print(shown(traceback.format_exc()), end="", file=sys.stderr)


def _report(message: str, remedy: str, code: str) -> None:
    console = stderr_console()
    console.print(Text.assemble(("error: ", "bold red"), message))
    if remedy:
        console.print(Text(f"  {remedy}"))
    console.print(Text(f"  [{code}]", style="dim"))
