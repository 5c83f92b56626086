"""`edgewise pull`, and commands that take a model of a hub, as people see them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import cached_bundle, model_name
from edgewise.cli.main import main
from edgewise.hub import download
from edgewise.hub.names import HubModel, hub_model
from edgewise.hub.pull import find, pull
from edgewise.hub.stored import home
from edgewise.units import size
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_runtime.format.bundle import Bundle
from tests.compiler.gguf.writing import write_gguf
from tests.sdk.cli.commands import command, environment
from tests.sdk.cli.conftest import Run
from tests.sdk.conftest import CASE
from tests.sdk.hub.repositories import FOLDER, NAME, READ, WEIGHTS, ggufs, noise
from tests.sdk.hub.small_hub import SmallHub

NARROW = 60


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_says_what_came_where_it_is_and_how_to_use_it(edgewise: Run, hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    total = size(sum(map(len, READ.values())))
    out = edgewise("pull", NAME).splitlines()
    assert out == [
        f"hf:{NAME}: 6 files, {total}, {total} of it new",
        f"in {find(HubModel(NAME))}",
        f"Try it: edgewise chat hf:{NAME}",
    ]
    again = edgewise("pull", f"hf:{NAME}").splitlines()
    assert again[0] == f"hf:{NAME}: 6 files, {total}, nothing new"


def test_of_a_file_and_of_a_new_name_it_says_so(edgewise: Run, hub: SmallHub) -> None:
    hub.add(NAME, ggufs("m-Q4_K_M.gguf", "m-Q8_0.gguf"))
    hub.renamed["tiny/old"] = NAME
    out = edgewise("pull", "tiny/old:Q8_0")
    assert out.startswith(f"tiny/old is called {NAME} now.\nhf:tiny/old:Q8_0: 1 file, 19.5 KiB")
    assert "m-Q8_0.gguf\n" in out


def test_models_are_listed_by_the_names_that_commands_take(
    edgewise: Run, hub: SmallHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(NARROW))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "without bundles"))
    assert "Fetch one: edgewise pull ORG/REPO" in edgewise("ls")
    long = f"tiny/{'x' * 60}"
    hub.add(NAME, FOLDER)
    hub.add(long, ggufs("m-Q4_K_M.gguf"))
    pulled = [pull(HubModel(repo)) for repo in (NAME, long)]
    listed = edgewise("ls").splitlines()
    assert listed[0] == "Of the hub, compiled when they are first used:"
    assert [line.rsplit("  ", 1) for line in listed[1:]] == [
        [f"{size(pulled[0].size):>10}", f"hf:{NAME}"],
        [f"{size(pulled[1].size):>10}", f"hf:{long}:Q4_K_M"],
    ]
    hub.requests.clear()
    assert find(hub_model(f"hf:{long}:Q4_K_M")) == pulled[1].path
    assert hub.requests == []


@pytest.mark.parametrize("command", [("rm", "--yes"), ("inspect",)])
def test_commands_for_bundles_say_what_to_do_with_a_model_of_a_hub(
    command: tuple[str, ...], hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(NAME, FOLDER)
    path = find(HubModel(NAME))
    assert main([*command, f"hf:{NAME}"]) == 1
    said = capsys.readouterr().err
    assert f"edgewise compile hf:{NAME}" in said
    assert f"hf cache rm model/{NAME}" in said
    assert (path / WEIGHTS).is_file()


def test_a_pull_that_fails_is_one_error_with_what_to_do(
    hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(NAME, FOLDER, gated=True)
    assert main(["pull", NAME]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].strip() == "[hub.gated]"
    assert "hf auth login" in said.err


class Screen:
    """What a program shows in a narrow terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = ""

    def until(self, expected: str) -> None:
        """Read until this is shown."""
        while expected not in self.shown:
            assert select.select([self._descriptor], [], [], 30)[0], self.shown
            self.shown += os.read(self._descriptor, 4096).decode(errors="replace")

    def rest(self) -> str:
        """All that comes until the program ends."""
        try:
            while data := os.read(self._descriptor, 4096):
                self.shown += data.decode(errors="replace")
        except OSError:
            pass  # how Linux says that nobody has the other side open any more
        return self.shown


@contextmanager
def in_a_terminal(*argv: object) -> Iterator[tuple[Screen, subprocess.Popen[bytes]]]:
    """`edgewise argv…` in a terminal of 60 columns."""
    ours, theirs = pty.openpty()
    env = environment(TERM="xterm", COLUMNS=str(NARROW))
    with subprocess.Popen(
        command(*argv), stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as program:
        os.close(theirs)
        try:
            yield Screen(ours), program
        finally:
            program.kill()
            os.close(ours)


def test_a_bar_shows_how_far_it_is_and_an_interrupt_keeps_what_has_come(hub: SmallHub) -> None:
    weights = noise("large", 3 << 20)
    hub.add(NAME, FOLDER | {WEIGHTS: weights})
    hub.waits[WEIGHTS] = threading.Event()
    with in_a_terminal("pull", NAME) as (screen, program):
        screen.until("50 % of 3.0 MiB")
        program.send_signal(signal.SIGINT)
        hub.waits.pop(WEIGHTS).set()
        shown = screen.rest()
        assert program.wait(10) == 130
    assert "Traceback" not in shown
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").split("\n")
    bars = [line for line in lines if "Downloading" in line]
    assert bars
    assert all(len(bar.rstrip()) <= NARROW and bar.count("%") == 1 for bar in bars)
    (partial,) = home(NAME).rglob(f"*{download.PARTIAL}")
    there = partial.stat().st_size
    assert 1 << 20 <= there < len(weights)
    hub.requests.clear()
    assert (pull(HubModel(NAME)).path / WEIGHTS).read_bytes() == weights
    assert [request.range for request in hub.asked_for(WEIGHTS)] == [f"bytes={there}-"]


def test_models_of_a_hub_are_called_after_their_repository(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.add("tiny/files", ggufs("m-Q4_K_M.gguf"))
    folder, file = find(HubModel(NAME)), find(HubModel("tiny/files"))
    assert (model_name(folder), model_name(file)) == ("Llama-1M", "m-Q4_K_M")
    assert cached_bundle(folder).name.startswith("Llama-1M-balanced-")
    assert cached_bundle(file).name.startswith("m-Q4_K_M-")


def test_what_was_compiled_is_used_until_the_hub_has_something_else_to_compile(
    hub: SmallHub,
) -> None:
    repository = hub.add(NAME, FOLDER)
    before = pull(HubModel(NAME)).path
    compiled = cached_bundle(before)
    repository.files["README.md"] = b"# The same model in other words"
    shutil.rmtree(home(NAME))
    after = pull(HubModel(NAME)).path
    assert after != before
    assert cached_bundle(after) == compiled
    repository.files["chat_template.jinja"] = b"Other words"
    assert cached_bundle(pull(HubModel(NAME)).path) != compiled


@pytest.fixture
def published(hub: SmallHub, checkpoints: Callable[[str], Path]) -> Path:
    """A model that can be compiled, at the hub as NAME: its folder."""
    folder = checkpoints(CASE)
    hub.add(NAME, {path.name: path.read_bytes() for path in folder.iterdir()} | {"README.md": b""})
    return folder


@pytest.mark.landing
def test_a_model_of_a_hub_is_fetched_and_compiled_by_its_name(
    edgewise: Run, hub: SmallHub, published: Path, bundle: Path
) -> None:
    out = edgewise("compile", f"hf:{NAME}", "--quant", "q4", "--prefill-chunk", 128)
    assert "edgewise chat dist/Llama-1M-q4" in out
    made, same = (Bundle.open(path).manifest for path in (Path("dist/Llama-1M-q4"), bundle))
    assert made.weights_id == same.weights_id


def test_a_file_of_a_hub_is_read_through_the_link_that_names_it(
    hub: SmallHub, published: Path, tmp_path: Path
) -> None:
    write_gguf(published, tmp_path / "m-Q8_0.gguf", kind="Q8_0", split=8)
    parts = sorted(tmp_path.glob("m-Q8_0-*.gguf"))
    assert len(parts) > 1
    hub.add("tiny/files", {part.name: part.read_bytes() for part in parts})
    found = find(HubModel("tiny/files", "Q8_0"))
    assert found.is_symlink()
    with open_checkpoint(found) as here, open_checkpoint(parts[0]) as there:
        assert here.model == there.model


@pytest.mark.parametrize("through", ["run", "Engine"])
def test_a_model_of_a_hub_runs_by_its_name(
    edgewise: Run, hub: SmallHub, published: Path, bundle: Path, through: str
) -> None:
    # What is compiled of it, so that this need not be done again here.
    cached = cached_bundle(find(HubModel(NAME)), "q4" if through == "run" else None)
    shutil.copytree(bundle, cached)
    shutil.rmtree(home(NAME))

    def answer() -> str:
        if through == "run":
            flags = ("--max-tokens", 4, "--temperature", 0, "--quant", "q4")
            return edgewise("run", f"hf:{NAME}", "The quick", *flags).removesuffix("\n")
        with Engine(f"hf:{NAME}") as engine:
            return engine.generate("The quick", max_tokens=4, temperature=0).text

    first = answer()
    assert WEIGHTS in hub.fetched()
    hub.requests.clear()
    assert answer() == first
    assert hub.requests == []
    with Engine(bundle) as engine:
        assert engine.generate("The quick", max_tokens=4, temperature=0).text == first
