"""Prefixes of models with windows outlive engines, and come with bundles, to the bit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from edgewise import Completion, Engine, Settings
from edgewise.packs.making import make_packs, runners_of
from edgewise.packs.prompt import PackPrompt
from edgewise.packs.writing import packs_of, remove_pack
from edgewise_runtime.devices.base import Device
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.bundle import Bundle, describe_files, read_manifest, write_manifest
from edgewise_runtime.format.packs import index_path, page_path
from edgewise_runtime.format.state import footprint, group_key
from edgewise_runtime.kv.keys import KeyChain, root_key
from edgewise_runtime.kv.page_file import HEADER
from tests.conftest import BundleFactory, made_once

PROMPT = [(i * 29) % 250 + 20 for i in range(150)]
FULL = 144
"""Tokens of its full pages, far beyond all windows."""

TEXT = "A page holds sixteen tokens, and a window sees some of them. " * 2
"""What prompts begin with that a pack is made of."""

GREEDY: dict[str, Any] = {
    "max_tokens": 40,
    "temperature": 0,
    "ignore_eos": True,
    "logprobs": True,
    "top_logprobs": 5,
}


class Apart(CpuDevice):
    """A processor with memory of its own, to and from which pages are copied."""

    host_memory = False


@dataclass(frozen=True)
class World:
    """A bundle, and where its prefixes are kept on disk."""

    bundle: Path
    folder: Path

    def engine(self, device: Device | None = None, **settings: Any) -> Engine:
        return Engine(self.bundle, device=device, settings=Settings(**settings))

    def on_disk(self) -> Engine:
        return self.engine(prefix_disk=8 << 20, prefix_folder=self.folder)

    def file(self, nth: int) -> Path:
        """Of a page of the prompt in the last state group, which has a window."""
        with closing(Bundle.open(self.bundle)) as bundle:
            chain = KeyChain(root_key(bundle, bundle.manifest.programs[0]))
            groups = bundle.manifest.state_groups
        assert groups[-1].window is not None
        for at in range(nth + 1):
            key = chain.key(at, PROMPT[16 * at : 16 * at + 16])
        (file,) = self.folder.rglob(f"{group_key(key, len(groups) - 1).hex()}.kv")
        return file

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.kv"))


@pytest.fixture(
    scope="module",
    params=[
        "gemma2-window",
        pytest.param("mistral-window", marks=pytest.mark.full),
        pytest.param("gemma3-window", marks=pytest.mark.full),
        pytest.param("olmo3-window", marks=pytest.mark.full),
        pytest.param("gptoss-window", marks=pytest.mark.full),
    ],
)
def bundle(request: pytest.FixtureRequest, bundles: BundleFactory) -> Path:
    return bundles(request.param, "q4")


@pytest.fixture
def world(bundle: Path, tmp_path: Path) -> World:
    return World(bundle, tmp_path / "prefixes")


@pytest.fixture(scope="module")
def cold(bundle: Path) -> Iterator[Engine]:
    """An engine that finds nothing."""
    with Engine(bundle, settings=Settings(prefix_packs=False)) as engine:
        yield engine


def ask(engine: Engine, prompt: list[int]) -> Completion:
    return engine.submit(prompt, **GREEDY).result()


def alone(cold: Engine, prompt: list[int]) -> Completion:
    cold.forget()
    answer = ask(cold, prompt)
    assert answer.usage.cached_tokens == 0
    return answer


def same(one: Completion, other: Completion) -> bool:
    return (one.token_ids, one.logprobs) == (other.token_ids, other.logprobs)


def hits(engine: Engine) -> dict[str, int]:
    return {tier: n for tier, n in engine.metrics()["prefix_cache_hits_total"].items() if n}


def test_a_prefix_comes_back_from_memory(world: World, cold: Engine) -> None:
    with world.engine(Apart(), prefix_device=0) as engine:
        first = ask(engine, PROMPT)
        while engine.metrics()["prefix_cache_bytes"]:
            sleep(0.01)
        again = ask(engine, PROMPT)
        metrics = engine.metrics()
        found = hits(engine)
    assert same(first, alone(cold, PROMPT))
    assert same(again, first)
    assert found == {"memory": FULL}
    assert again.usage.cached_tokens == FULL
    assert metrics["kv_pages_restored_total"] <= metrics["kv_pages_spilled_total"]
    assert metrics["prefill_tokens_total"] == 2 * len(PROMPT) - FULL


def test_a_prefix_outlives_its_engine(world: World, cold: Engine) -> None:
    with world.on_disk() as engine:
        ask(engine, PROMPT)
    assert world.files
    with world.on_disk() as engine:
        again, found = ask(engine, PROMPT), hits(engine)
        assert again.usage.cached_tokens == found["memory"] == FULL
        # Nothing more has to be read for those that begin so a second time.
        restored = engine.metrics()["kv_pages_restored_total"]
        assert same(ask(engine, PROMPT), again)
        assert engine.metrics()["kv_pages_restored_total"] == restored
    assert same(again, alone(cold, PROMPT))


def test_the_next_turn_goes_on_where_the_last_ended(world: World, cold: Engine) -> None:
    with world.on_disk() as engine:
        first = ask(engine, PROMPT)
    longer = [*PROMPT, *first.token_ids, 7, 8, 9]
    with world.on_disk() as engine:
        found = ask(engine, longer)
    known = len(PROMPT) + len(first.token_ids) - 1
    assert found.usage.cached_tokens == known // 16 * 16
    assert same(found, alone(cold, longer))


def test_a_prompt_that_leaves_another_in_its_middle_finds_what_they_share(
    world: World, cold: Engine
) -> None:
    with world.on_disk() as engine:
        ask(engine, PROMPT)
    other = [*PROMPT[:90], 7, *PROMPT[91:]]
    with world.on_disk() as engine:
        found = ask(engine, other)
    assert found.usage.cached_tokens == 80
    assert same(found, alone(cold, other))


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("damage", ["gone", "torn", "of another page", "cut"])
def test_a_damaged_file_makes_the_prefix_shorter_and_never_wrong(
    world: World, cold: Engine, damage: str
) -> None:
    with world.on_disk() as engine:
        ask(engine, PROMPT)
    expected = alone(cold, PROMPT)
    # Of a group with a window of at most 40 tokens, of which the first of all is long behind it.
    for nth, cached in ((8, 128), (7, 112), (0, FULL)):
        page, another = (world.file(nth + more) for more in (0, 1 if nth < 8 else -1))
        before = page.read_bytes()
        if damage == "gone":
            page.unlink()
        elif damage == "torn":
            page.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        elif damage == "cut":
            page.write_bytes(before[:-1])
        else:
            page.write_bytes(another.read_bytes())
        with world.on_disk() as engine:
            found = ask(engine, PROMPT)
        assert same(found, expected)
        assert found.usage.cached_tokens == cached
        # What was computed again is on the disk again.
        assert not cached < FULL or page.read_bytes() == before


def test_forgetting_removes_the_files(world: World) -> None:
    with world.on_disk() as engine:
        ask(engine, PROMPT)
    assert world.files
    with world.on_disk() as engine:
        engine.forget()
    assert world.files == []


def test_a_pinned_prefix_that_was_on_disk_stays_on_the_device(world: World, cold: Engine) -> None:
    with world.on_disk() as engine:
        ask(engine, PROMPT)
    with world.engine(prefix_device=0, prefix_disk=8 << 20, prefix_folder=world.folder) as engine:
        engine.pin(PROMPT)
        engine.forget()
        assert world.files == []
        assert engine.metrics()["prefix_cache_hits_total"]["memory"] == FULL
        found = ask(engine, [*PROMPT, 9])
    assert found.usage.cached_tokens >= FULL
    assert same(found, alone(cold, [*PROMPT, 9]))


# Packs


@pytest.fixture(scope="module")
def packed(bundle: Path, shared: Path) -> Path:
    """The model with a pack."""

    def make(out: Path) -> None:
        shutil.copytree(bundle, out)
        pack(out)

    return made_once(shared / f"packed-{bundle.name}", make)


def pack(folder: Path, text: str = TEXT, name: str = "pages", **chosen: Any) -> None:
    with closing(Bundle.open(folder, verify=False)) as bundle:
        runners, _ = runners_of(bundle, **chosen)
    make_packs(folder, PackPrompt(text=text), name, runners)


def generated(folder: Path, text: str, **settings: Any) -> tuple[Completion, dict[str, int]]:
    with Engine(folder, settings=Settings(**settings)) as engine:
        return engine.generate(text, **GREEDY), hits(engine)


def kept(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.kv")}


def test_another_engine_begins_with_a_pack(packed: Path) -> None:
    warm, found = generated(packed, f"{TEXT}And then")
    without, none = generated(packed, f"{TEXT}And then", prefix_packs=False)
    ((_, index),) = packs_of(Bundle.open(packed)).items()
    assert found == {"bundle": 16 * len(index.packs[0].keys)}
    assert none == {}
    assert same(warm, without)


def test_a_pack_has_the_pages_that_its_end_needs_and_no_others(packed: Path) -> None:
    with closing(Bundle.open(packed)) as bundle:
        ((place, index),) = packs_of(bundle).items()
        sizes = footprint(bundle.manifest)
    (one,) = index.packs
    names = {
        page_path(place, group_key(key, group))
        for group, window in enumerate(sizes.windows)
        for key in one.keys[sizes.behind(window, 16 * len(one.keys)) :]
    }
    assert kept(packed) == names
    assert len(names) < len(sizes.windows) * len(one.keys)
    assert {(packed / name).stat().st_size for name in names} == {index.file_bytes}


def test_a_pack_is_no_use_where_it_lacks_what_a_window_sees(packed: Path, tmp_path: Path) -> None:
    """A prompt that shares some of a pack needs another window than the pack's end has."""
    folder = Path(shutil.copytree(packed, tmp_path / packed.name))
    short = TEXT[: len(TEXT) * 2 // 3]
    assert generated(folder, f"{short}!")[1] == {}
    pack(folder, short, "short")
    warm, found = generated(folder, f"{short}!")
    (index,) = packs_of(Bundle.open(folder)).values()
    assert found == {"bundle": 16 * len(index.packs[1].keys)}
    assert same(warm, generated(folder, f"{short}!", prefix_packs=False)[0])
    before = kept(packed)
    assert kept(folder) > before
    assert generated(folder, f"{TEXT}!")[1] == {"bundle": 16 * len(index.packs[0].keys)}
    remove_pack(folder, "short", lambda *_: None)
    assert kept(folder) == before
    Bundle.open(folder).check()


def test_pages_of_a_pack_are_not_written_to_the_disk_again(packed: Path, tmp_path: Path) -> None:
    generated(packed, f"{TEXT}And", prefix_disk=8 << 20, prefix_folder=tmp_path)
    names = {path.name for path in tmp_path.rglob("*.kv")}
    assert names
    assert names.isdisjoint(Path(name).name for name in kept(packed))


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("at", [0, 40, HEADER.size + 5, -1])
def test_a_damaged_page_of_a_pack_is_computed(packed: Path, tmp_path: Path, at: int) -> None:
    folder = Path(shutil.copytree(packed, tmp_path / packed.name))
    (index,) = packs_of(Bundle.open(folder)).values()
    last = group_key(index.packs[0].keys[-1], len(index.windows) - 1)
    (page,) = folder.rglob(f"{last.hex()}.kv")
    data = bytearray(page.read_bytes())
    data[at] ^= 1
    page.write_bytes(data)
    warm, found = generated(folder, f"{TEXT}And")
    assert found == {}
    assert same(warm, generated(folder, f"{TEXT}And", prefix_packs=False)[0])


@pytest.mark.parametrize(
    ("windows", "code"),
    [("[null]", "bundle.range"), ("[7]", None), ("[null,20,20,20]", "bundle.unknown_name")],
)
def test_a_pack_of_other_windows_does_not_fit(
    packed: Path, tmp_path: Path, windows: str, code: str | None
) -> None:
    folder = Path(shutil.copytree(packed, tmp_path / packed.name))
    ((place, index),) = packs_of(Bundle.open(folder)).items()
    path = folder / index_path(place)
    said = ",".join("null" if window is None else str(window) for window in index.windows)
    text = path.read_text()
    assert f'"windows":[{said}]' in text
    path.write_text(text.replace(f'"windows":[{said}]', f'"windows":{windows}'))
    write_manifest(folder, replace(read_manifest(folder), files=describe_files(folder)))
    if code is None:
        assert generated(folder, f"{TEXT}And")[1] == {}
        return
    with pytest.raises(BundleError) as refused:
        generated(folder, f"{TEXT}And")
    assert refused.value.code == code


@pytest.fixture(scope="module")
def gpu() -> WgpuDevice:
    """One that the CPU plays, for all, so that its kernels are compiled once."""
    return WgpuDevice()


PROGRAM = "webgpu-f32"


@pytest.fixture(scope="module")
def for_gpus(bundles: BundleFactory) -> Path:
    return bundles("gemma3-window", "q4", targets=("cpu", "webgpu"))


@pytest.mark.full
def test_pages_of_a_gpu_come_back(for_gpus: Path, gpu: WgpuDevice, tmp_path: Path) -> None:
    def asked(**settings: Any) -> tuple[Completion, dict[str, int]]:
        options = Settings(**settings)
        with Engine(for_gpus, device=gpu, program=PROGRAM, settings=options) as engine:
            ask(engine, PROMPT)
            engine.submit([9] * 100, max_tokens=2).result()
            return ask(engine, PROMPT), hits(engine)

    away: dict[str, Any] = {"prefix_disk": 8 << 20, "prefix_folder": tmp_path / "prefixes"}
    expected, _ = asked(prefix_memory=0)
    warm, found = asked(prefix_device=0)
    assert same(warm, expected)
    assert found["memory"] == FULL
    first, _ = asked(prefix_device=0, prefix_memory=0, **away)
    again, found = asked(prefix_memory=0, **away)
    assert same(first, expected)
    assert same(again, expected)
    assert found["memory"] >= FULL


@pytest.mark.full
def test_a_gpu_begins_with_its_pack(for_gpus: Path, gpu: WgpuDevice, tmp_path: Path) -> None:
    """To the bit where the same program has computed it, and not another of its arithmetic."""
    folder = Path(shutil.copytree(for_gpus, tmp_path / "bundle"))
    pack(folder, device=gpu, program=PROGRAM)
    answers = []
    for packs in (True, False):
        settings = Settings(prefix_packs=packs)
        with Engine(folder, device=gpu, program=PROGRAM, settings=settings) as engine:
            answers.append(engine.generate(f"{TEXT}And", **{**GREEDY, "max_tokens": 8}))
    warm, cold = answers
    assert (warm.usage.cached_tokens > 32, cold.usage.cached_tokens) == (True, 0)
    assert same(warm, cold)
