"""A shell completes commands, options, what options take, and names of bundles."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise.cli.completion import commands
from edgewise.cli.main import COMMANDS, parse
from edgewise.cli.shells import SHELLS, Command, Words
from tests.sdk.cli.conftest import Run

Complete = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def known() -> list[Command]:
    return commands(parse(["completion", "bash"]).commands)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with bundles in dist and in the cache, and files beside them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder in ("dist/tiny-q4", "dist/Ein Modell", "cache/edgewise/bundles/tiny-0a1b", "models"):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "bundle.json").touch()
    Path("models/bundle.json").unlink()
    Path("text file.txt").touch()
    return tmp_path


@pytest.fixture
def script(edgewise: Run, home: Path) -> Path:
    path = home / "completion.bash"
    path.write_text(edgewise("completion", "bash"))
    return path


@pytest.fixture
def complete(script: Path) -> Complete:
    """What bash offers for the last word of a line."""

    def offered(line: str) -> list[str]:
        words = line.split(" ")
        ask = (
            f"source {script}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
            '_edgewise; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return sorted(filter(None, done.stdout.split("\n")))

    return offered


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("edgewise co", ["compile", "completion"]),
        ("edgewise run --top-", ["--top-k", "--top-logprobs", "--top-p"]),
        ("edgewise compile --kv ", ["auto", "f32", "int8"]),
        ("edgewise completion ", ["bash", "fish", "zsh"]),
        ("edgewise run tin", ["tiny-0a1b", "tiny-q4"]),
        ("edgewise run --draft tiny-q", ["tiny-q4"]),
        ("edgewise serve tiny-q4 tiny-", ["tiny-0a1b", "tiny-q4"]),
        ("edgewise chat Ein", ["Ein Modell"]),
        ("edgewise eval tiny-q4 --text tex", ["text file.txt"]),
        ("edgewise compile -o mod", ["models"]),
        ("edgewise compile mod", ["models"]),
        ("edgewise run tiny-q4 --seed ", []),
        ("edgewise nonsense --", []),
    ],
)
def test_bash_offers_what_may_stand_there(
    complete: Complete, line: str, expected: list[str]
) -> None:
    assert complete(line) == expected


def test_bash_offers_every_command_and_all_its_options(
    complete: Complete, known: list[Command]
) -> None:
    assert complete("edgewise ") == sorted(COMMANDS)
    for command in known:
        names = [name for option in command.options for name in option.names]
        assert complete(f"edgewise {command.name} -") == sorted(names)


def test_a_name_is_never_run(complete: Complete, home: Path) -> None:
    hostile = home / "dist" / "$(touch ran)`touch ran`"
    hostile.mkdir()
    (hostile / "bundle.json").touch()
    assert complete("edgewise run $") == [hostile.name]
    assert not (home / "ran").exists()


@pytest.fixture
def terminal(script: Path) -> Iterator[int]:
    """Our end of a terminal in which bash has read the script."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PS1": "ready ", "TERM": "dumb", "HISTFILE": ""},
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        os.write(ours, f"source {script}; echo le''arned\n".encode())
        read_until(ours, "learned")
        yield ours
        shell.kill()
        os.close(ours)


def read_until(terminal: int, expected: str) -> None:
    seen = b""
    while expected.encode() not in seen:
        assert select.select([terminal], [], [], 20)[0], seen
        seen += os.read(terminal, 4096)


def test_the_tab_key_completes_and_quotes_what_needs_it(terminal: int) -> None:
    for typed, expected in (
        ("edgewise compi\t", "edgewise compile "),
        ("--quan\tmxf\t", "--quant mxfp4 "),
        ("\x15edgewise run --dev\tcpu Ein\t", "--device cpu Ein\\ Modell"),
        ("\x15edgewise eval tiny-q\t--text te\t", "tiny-q4 --text text\\ file.txt "),
    ):
        os.write(terminal, typed.encode())
        read_until(terminal, expected)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_told_of_every_command_and_option(
    edgewise: Run, shell: str, known: list[Command]
) -> None:
    printed = edgewise("completion", shell)
    for command in known:
        assert command.name in printed
        for name in (name for option in command.options for name in option.names):
            told = f"-l {name[2:]}" if shell == "fish" and name.startswith("--") else name
            told = f"-s {name[1:]}" if shell == "fish" and not name.startswith("--") else told
            assert told in printed, (command.name, name)


def test_what_a_description_holds_is_no_order_to_a_shell() -> None:
    odd = [Command("x", "it's [a]: $(b) `c`\\", (), Words())]
    assert "'x:it'\"'\"'s [a]\\: $(b) `c`\\\\'" in SHELLS["zsh"](odd)
    assert "-d 'it\\'s [a]: $(b) `c`\\\\'" in SHELLS["fish"](odd)
