"""Prefixes on disk: a new engine goes on where an old one ended, with the same answers."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from edgewise import Completion, Engine, Settings
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import StorageError
from edgewise_runtime.format.bundle import Bundle, TensorEntry, describe_files, write_manifest
from edgewise_runtime.kv.write_behind import NAME

PROMPT = [(i * 29) % 50 + 20 for i in range(83)]
FULL_PAGES = 80


class Elsewhere(CpuDevice):
    """A processor whose results may differ from those of another, with memory of its own."""

    identity = "another driver"
    host_memory = False


@dataclass(frozen=True)
class Answers:
    """Asks engines that keep prefixes on disk, each only once."""

    bundle: Path
    folder: Path
    trust: bool = False

    def ask(
        self, prompt: list[int] = PROMPT, *, memory: int = 1 << 20, device: CpuDevice | None = None
    ) -> Completion:
        settings = Settings(prefix_memory=memory, prefix_disk=8 << 20, prefix_folder=self.folder)
        with Engine(self.bundle, settings=settings, device=device, trust=self.trust) as engine:
            return engine.submit(prompt, max_tokens=9, temperature=0, ignore_eos=True).result()

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.kv"))


@pytest.fixture
def answers(bundle: Path, tmp_path: Path) -> Answers:
    return Answers(bundle, tmp_path / "prefixes")


@pytest.fixture(scope="module")
def expected(engine: Engine) -> tuple[int, ...]:
    asked = engine.submit(PROMPT, max_tokens=9, temperature=0, ignore_eos=True)
    return asked.result().token_ids


def cached(completion: Completion) -> int:
    return completion.usage.cached_tokens


@pytest.mark.parametrize("device", [CpuDevice, Elsewhere])
@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_a_prefix_outlives_its_engine(
    answers: Answers, expected: tuple[int, ...], memory: int, device: Callable[[], CpuDevice]
) -> None:
    first, second = (answers.ask(memory=memory, device=device()) for _ in range(2))
    assert (cached(first), cached(second)) == (0, FULL_PAGES)
    assert first.token_ids == second.token_ids == expected


@pytest.mark.parametrize("device", [CpuDevice, Elsewhere])
def test_the_engines_thread_changes_nothing_on_the_disk(
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
    device: Callable[[], CpuDevice],
) -> None:
    changed: list[tuple[str, str]] = []
    for name in ("open", "replace", "utime", "unlink", "mkdir"):
        call = getattr(os, name)

        def noted(
            path: object, *args: object, name: str = name, call: Any = call, **options: object
        ) -> Any:
            writes = name != "open" or bool(args and int(str(args[0])) & os.O_CREAT)
            if writes and str(answers.folder) in str(path):
                changed.append((name, threading.current_thread().name))
            return call(path, *args, **options)

        monkeypatch.setattr(os, name, noted)
    other = [*PROMPT[:50], 7, *PROMPT[51:]]
    for prompt in (PROMPT, PROMPT, other):
        answers.ask(prompt, device=device())
    # Who opens a store makes its folders.
    by_name = {name: {thread for each, thread in changed if each == name} for name, _ in changed}
    assert by_name.pop("mkdir") == {"MainThread", NAME}
    assert by_name == {name: {NAME} for name in ("open", "replace", "unlink", "utime")}


def test_another_end_shares_the_beginning(answers: Answers, engine: Engine) -> None:
    answers.ask()
    other = [*PROMPT[:50], 7, *PROMPT[51:]]
    found = answers.ask(other)
    assert cached(found) == 48
    alone = engine.submit(other, max_tokens=9, temperature=0, ignore_eos=True).result()
    assert found.token_ids == alone.token_ids


def zeroed(folder: Path, tensor: TensorEntry) -> None:
    """Other weights, in a file that is listed as it is."""
    with (folder / tensor.file).open("r+b") as file:
        file.seek(tensor.offset)
        file.write(bytes(tensor.bytes))


FORGERIES = {
    "other weights in the same places": lambda folder, one, other: (zeroed(folder, one), one),
    "the same weights in other places": lambda folder, one, other: (None, other),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_bundle_that_claims_to_be_another_gives_it_no_pages(
    answers: Answers, expected: tuple[int, ...], tmp_path: Path, forgery: str
) -> None:
    folder = Path(shutil.copytree(answers.bundle, tmp_path / answers.bundle.name))
    manifest = Bundle.open(folder).manifest
    places = dict(manifest.layouts["cpu"])
    one, other = (places[f"layers.{layer}.o.weight"] for layer in (0, 1))
    _, places["layers.0.o.weight"] = FORGERIES[forgery](folder, one, other)
    layouts = {**manifest.layouts, "cpu": places}
    write_manifest(folder, replace(manifest, layouts=layouts, files=describe_files(folder)))
    assert Bundle.open(folder).manifest.weights_id == manifest.weights_id
    forged = Answers(folder, answers.folder, trust=True).ask()
    assert forged.token_ids != expected
    found = answers.ask()
    assert (cached(found), found.token_ids) == (0, expected)


def test_damaged_files_are_computed_again(answers: Answers, expected: tuple[int, ...]) -> None:
    answers.ask()
    third = answers.files[2]
    data = bytearray(third.read_bytes())
    data[-1] ^= 1
    third.write_bytes(data)
    found = answers.ask()
    assert cached(found) in range(0, FULL_PAGES, 16)
    assert found.token_ids == expected
    assert cached(answers.ask()) == FULL_PAGES


def test_pages_of_another_device_are_not_its_own(
    answers: Answers, expected: tuple[int, ...]
) -> None:
    answers.ask()
    found = answers.ask(device=Elsewhere())
    assert (cached(found), found.token_ids) == (0, expected)
    assert cached(answers.ask(device=Elsewhere())) == FULL_PAGES


def test_nothing_is_on_disk_unless_asked_for(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Engine(bundle) as engine:
        engine.submit(PROMPT, max_tokens=2).result()
    assert list(tmp_path.rglob("*.kv")) == []
    with Engine(bundle, settings=Settings(prefix_disk=1 << 20)) as engine:
        engine.submit(PROMPT, max_tokens=2).result()
    assert {path.parents[1] for path in tmp_path.rglob("*.kv")} == {tmp_path / "edgewise/prefixes"}


def test_forgetting_removes_the_files(answers: Answers) -> None:
    answers.ask()
    assert answers.files
    settings = Settings(prefix_disk=8 << 20, prefix_folder=answers.folder)
    with Engine(answers.bundle, settings=settings) as engine:
        engine.forget()
        assert answers.files == []


def test_a_folder_that_cannot_be_used_is_an_error_and_not_a_slow_engine(answers: Answers) -> None:
    answers.folder.write_text("no folder")
    with pytest.raises(StorageError) as error:
        answers.ask()
    assert error.value.code == "storage.exists"
