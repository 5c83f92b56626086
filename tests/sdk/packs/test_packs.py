"""A prompt whose pages came with the bundle begins without prefill, and goes on as ever."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise import Completion, Engine, Settings
from edgewise.packs.making import make_packs, runners_of
from edgewise.packs.prompt import PackPrompt
from edgewise.packs.writing import packs_of, remove_pack
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import BundleError, EdgewiseError, InputError
from edgewise_runtime.format.bundle import (
    Bundle,
    describe_files,
    read_manifest,
    write_manifest,
)
from edgewise_runtime.format.packs import index_path, page_path, prompt_digest
from edgewise_runtime.kv.page_file import HEADER
from edgewise_runtime.kv.shipped import file_bytes
from edgewise_runtime.text import Tokenizer
from tests.sdk.cli.commands import environment
from tests.sdk.packs.conftest import SYSTEM, pack

MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Is it late?"}]
OFF = Settings(prefix_packs=False)


def ask(folder: Path, settings: Settings | None = None) -> tuple[Completion, dict[str, int], int]:
    """The answer, where tokens of its prompt were found, and how many were computed."""
    with Engine(folder, settings=settings) as engine:
        answer = engine.chat(MESSAGES, max_tokens=24, temperature=0, ignore_eos=True)
        metrics = engine.metrics()
        assert answer.usage.cached_tokens == sum(metrics["prefix_cache_hits_total"].values())
        return answer, metrics["prefix_cache_hits_total"], metrics["prefill_tokens_total"]


def pages_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kv"))


def tokens_in(folder: Path) -> int:
    return 16 * len(pages_in(folder))


@pytest.fixture(scope="module")
def cold(packed: Path) -> Completion:
    answer, hits, computed = ask(packed, OFF)
    assert (sum(hits.values()), computed) == (0, answer.usage.prompt_tokens)
    return answer


@pytest.mark.landing
def test_nothing_of_a_packed_prompt_is_computed(packed: Path, cold: Completion) -> None:
    answer, hits, computed = ask(packed)
    assert hits["bundle"] == tokens_in(packed) > 64
    assert computed == answer.usage.prompt_tokens - hits["bundle"] < 40
    assert answer.token_ids == cold.token_ids


def test_the_whole_bundle_is_sound(packed: Path) -> None:
    with Engine(packed) as engine:
        assert engine.program
    Bundle.open(packed).check()


def test_the_pages_hold_the_prompt_and_can_be_read(packed: Path) -> None:
    bundle = Bundle.open(packed)
    ((place, index),) = packs_of(bundle).items()
    held: list[int] = []
    for key in index.packs[0].keys:
        page = bundle.read(page_path(place, key))[HEADER.size :]
        held += np.frombuffer(page, "<u4", count=17)[1:].tolist()
    assert prompt_digest(held) == index.packs[0].prompt
    assert SYSTEM[:60] in Tokenizer.from_bundle(bundle).decode(held)


def test_a_second_request_finds_the_pages_on_the_device(packed: Path) -> None:
    with Engine(packed) as engine:
        for _ in range(2):
            engine.chat(MESSAGES, max_tokens=2)
        hits = engine.metrics()["prefix_cache_hits_total"]
    assert hits["device"] >= hits["bundle"] == tokens_in(packed)


def test_requests_with_a_salt_do_without(packed: Path, cold: Completion) -> None:
    with Engine(packed) as engine:
        answer = engine.chat(
            MESSAGES, max_tokens=24, temperature=0, ignore_eos=True, cache_salt="one"
        )
    assert (answer.usage.cached_tokens, answer.token_ids) == (0, cold.token_ids)


def test_forgetting_leaves_what_the_bundle_has(packed: Path) -> None:
    with Engine(packed) as engine:
        engine.chat(MESSAGES, max_tokens=2)
        engine.forget()
        again = engine.chat(MESSAGES, max_tokens=2)
    assert again.usage.cached_tokens == tokens_in(packed)


def test_pages_of_a_pack_are_not_written_to_the_disk_again(packed: Path, tmp_path: Path) -> None:
    settings = Settings(prefix_disk=8 << 20, prefix_folder=tmp_path)
    answer, _, _ = ask(packed, settings)
    known = answer.usage.prompt_tokens + len(answer.token_ids) - 1
    assert len(pages_in(tmp_path)) == known // 16 - len(pages_in(packed))


class Elsewhere(CpuDevice):
    """A processor whose results may differ from those of the one that computed the pack."""

    identity = "another driver"


@pytest.mark.landing
def test_pages_of_another_device_are_used_and_what_follows_them_is_kept_apart(
    packed: Path, cold: Completion, tmp_path: Path
) -> None:
    def answer(packs: bool) -> Completion:
        settings = Settings(prefix_disk=8 << 20, prefix_folder=tmp_path, prefix_packs=packs)
        with Engine(packed, device=Elsewhere(), settings=settings) as engine:
            return engine.chat(MESSAGES, max_tokens=24, temperature=0, ignore_eos=True)

    first, without, again = answer(packs=True), answer(packs=False), answer(packs=True)
    assert first.token_ids == without.token_ids == again.token_ids == cold.token_ids
    assert first.usage.cached_tokens == tokens_in(packed)
    assert without.usage.cached_tokens == 0
    assert again.usage.cached_tokens >= first.usage.cached_tokens
    assert len({page.parent for page in pages_in(tmp_path)}) == 2


@pytest.mark.parametrize("at", [0, 8, 40, HEADER.size, HEADER.size + 5, -1])
def test_a_damaged_page_is_computed(copy: Path, cold: Completion, at: int) -> None:
    page = page_of(copy, 1)
    data = bytearray(page.read_bytes())
    data[at] ^= 1
    page.write_bytes(data)
    answer, hits, _ = ask(copy)
    assert (hits["bundle"], answer.token_ids) == (16, cold.token_ids)
    with pytest.raises(BundleError) as error:
        Bundle.open(copy).check()
    assert error.value.code == "bundle.checksum"


def page_of(folder: Path, nth: int) -> Path:
    ((place, index),) = packs_of(Bundle.open(folder)).items()
    return folder / page_path(place, index.packs[0].keys[nth])


def sealed(folder: Path) -> None:
    """Let bundle.json say that all files are as they are."""
    manifest = read_manifest(folder)
    write_manifest(folder, replace(manifest, files=describe_files(folder)))


def swapped(folder: Path) -> None:
    """The first two pages, each by the name of the other."""
    first, second = page_of(folder, 0), page_of(folder, 1)
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def by_another(folder: Path) -> None:
    """An index that says of its pages that something else computed them."""
    (place,) = packs_of(Bundle.open(folder))
    index = folder / index_path(place)
    index.write_text(index.read_text().replace('"device":""', '"device":"x"'))


@pytest.mark.parametrize("change", [swapped, by_another])
def test_pages_that_are_not_what_they_are_called_are_computed(
    copy: Path, cold: Completion, change: Callable[[Path], None]
) -> None:
    before = [file.read_bytes() for file in sorted(copy.rglob("*")) if file.is_file()]
    change(copy)
    assert before != [file.read_bytes() for file in sorted(copy.rglob("*")) if file.is_file()]
    sealed(copy)
    answer, hits, _ = ask(copy)
    assert (hits["bundle"], answer.token_ids) == (0, cold.token_ids)


def test_a_damaged_index_is_refused(copy: Path) -> None:
    (place,) = packs_of(Bundle.open(copy))
    index = copy / index_path(place)
    index.write_bytes(index.read_bytes().replace(b"terse", b"Terse"))
    with pytest.raises(BundleError) as error:
        Engine(copy)
    assert error.value.code == "bundle.checksum"


def test_pages_of_other_weights_are_not_found(copy: Path) -> None:
    manifest = Bundle.open(copy).manifest
    tensor = manifest.layouts["cpu"]["layers.0.o.weight"]
    with (copy / tensor.file).open("r+b") as file:
        file.seek(tensor.offset)
        file.write(bytes(tensor.bytes))
    sealed(copy)
    with Engine(copy, trust=True) as engine:
        answer = engine.chat(MESSAGES, max_tokens=2)
    assert answer.usage.cached_tokens == 0


def test_a_pack_that_is_removed_leaves_the_bundle_as_it_was(
    copy: Path, demo_bundle: Path, prompt: PackPrompt
) -> None:
    assert remove_pack(copy, "terse", lambda *_: None) == 1
    assert Bundle.open(copy).manifest.files == Bundle.open(demo_bundle).manifest.files
    assert not pages_in(copy)
    with pytest.raises(InputError, match="no pack 'terse'"):
        remove_pack(copy, "terse", lambda *_: None)


def test_packs_that_begin_alike_share_pages(copy: Path, prompt: PackPrompt) -> None:
    before = len(pages_in(copy))
    longer = replace(prompt, messages=[{"role": "system", "content": f"{SYSTEM}{SYSTEM}"}])
    pack(copy, longer, "longer")
    (index,) = packs_of(Bundle.open(copy)).values()
    assert [one.name for one in index.packs] == ["terse", "longer"]
    first, second = (set(one.keys) for one in index.packs)
    assert len(first & second) == before - 1
    assert {bytes.fromhex(file.stem) for file in pages_in(copy)} == first | second
    remove_pack(copy, "longer", lambda *_: None)
    assert len(pages_in(copy)) == before
    Bundle.open(copy).check()


def test_files_beside_a_bundle_stay(copy: Path, prompt: PackPrompt) -> None:
    (copy / "notes.txt").write_text("mine")
    pack(copy, prompt)
    assert (copy / "notes.txt").read_text() == "mine"
    assert "notes.txt" not in Bundle.open(copy).manifest.files


def test_what_cannot_be_written_leaves_the_bundle_as_it_is(
    demo_bundle: Path, tmp_path: Path, prompt: PackPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(demo_bundle, tmp_path / "one"))
    before = (folder / "bundle.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgewise.packs.writing.write_manifest", full)
    with pytest.raises(EdgewiseError) as error:
        pack(folder, prompt)
    assert error.value.code == "storage.full"
    assert (folder / "bundle.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["one"]
    Bundle.open(folder).check()


KILLED = """
import os, signal, sys
from pathlib import Path
from edgewise.packs import writing
from edgewise_runtime import folders

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

places = {"manifest": (writing, "write_manifest"), "place": (folders, "_put_in_place")}
setattr(*places[sys.argv[2]], killed)
writing.remove_pack(Path(sys.argv[1]), "terse", lambda *told: None)
"""


@pytest.mark.parametrize("where", ["manifest", "place"])
def test_a_process_that_is_killed_leaves_the_bundle_as_it_was(copy: Path, where: str) -> None:
    before = Bundle.open(copy).manifest
    line = [sys.executable, "-c", KILLED, copy, where]
    assert subprocess.run(line, env=environment(), check=False).returncode == -signal.SIGKILL
    assert Bundle.open(copy).manifest == before
    Bundle.open(copy).check()
    assert remove_pack(copy, "terse", lambda *_: None) == 1
    assert [file.name for file in copy.parent.iterdir()] == [copy.name]


def test_packs_of_another_device_are_not_mixed_with_those_of_this_one(
    copy: Path, prompt: PackPrompt
) -> None:
    by_another(copy)
    sealed(copy)
    with pytest.raises(InputError) as error:
        pack(copy, prompt, "second")
    assert error.value.code == "input.device"


@pytest.mark.parametrize(
    ("text", "said"), [("Hi", "tokens are the same"), (SYSTEM * 40, "context")]
)
def test_prompts_of_no_use_are_refused(
    demo_bundle: Path, tmp_path: Path, text: str, said: str
) -> None:
    folder = Path(shutil.copytree(demo_bundle, tmp_path / "one"))
    with pytest.raises(InputError, match=said):
        pack(folder, PackPrompt(text=text))


def test_a_name_is_no_path(demo_bundle: Path, prompt: PackPrompt) -> None:
    runners, _ = runners_of(Bundle.open(demo_bundle))
    with pytest.raises(InputError, match="no name of a pack"):
        make_packs(demo_bundle, prompt, "../x", runners)


def test_a_file_has_the_size_that_is_said(packed: Path) -> None:
    bundle = Bundle.open(packed)
    (index,) = packs_of(bundle).values()
    sizes = {page.stat().st_size for page in pages_in(packed)}
    assert sizes == {index.file_bytes} == {file_bytes(bundle, bundle.manifest.programs[0])}
