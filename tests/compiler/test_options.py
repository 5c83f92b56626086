"""Which bounds a compilation has where nobody asks for any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.kernels.cpu.isa import ISAS
from edgewise_compiler.merge import bounds_beside
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.options import Bounds, Options, check_options
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.table import TARGETS
from edgewise_runtime import installed
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.format.bundle import ModelInfo
from tests.runtime import sample


@pytest.fixture(scope="module")
def config(checkpoints: Callable[[str], Path]) -> ModelConfig:
    with open_checkpoint(checkpoints("llama-mha")) as opened:
        return opened.model


def bounds(
    cfg: ModelConfig,
    *targets: str,
    context: int | None = None,
    max_batch: int | None = None,
    beside: ModelInfo | None = None,
) -> Bounds:
    return checked(
        cfg, *targets, context=context, max_batch=max_batch, beside=beside, cpu="portable"
    ).bounds


def checked(
    cfg: ModelConfig,
    *targets: str,
    cpu: str,
    context: int | None = None,
    max_batch: int | None = None,
    beside: ModelInfo | None = None,
) -> Options:
    return check_options(
        cfg,
        targets=targets,
        recipe=lambda: find_preset("q4"),
        context=context,
        max_batch=max_batch,
        prefill_chunk=512,
        cpu=cpu,
        kv="auto",
        debug_dump=None,
        beside=beside,
    )


@pytest.mark.parametrize(
    ("own", "context"), [(256, 256), (40960, 40960), (131072, 131072), (1 << 20, 131072)]
)
def test_the_context_is_the_models_own_as_far_as_its_rotation_stays_small(
    config: ModelConfig, own: int, context: int
) -> None:
    assert bounds(replace(config, context=own), "cpu").context == context


def test_a_longer_one_can_be_asked_for(config: ModelConfig) -> None:
    assert bounds(replace(config, context=1 << 20), "cpu", context=1 << 20).context == 1 << 20


@pytest.mark.parametrize(
    ("targets", "batch"), [(("cpu",), 32), (("webgpu",), 8), (("cpu", "webgpu"), 8)]
)
def test_a_gpu_has_fewer_sequences_because_their_buffers_take_memory(
    config: ModelConfig, targets: tuple[str, ...], batch: int
) -> None:
    assert bounds(config, *targets).batch == batch == min(TARGETS[t].batch for t in targets)
    assert bounds(config, *targets, max_batch=256).batch == 256


def test_what_is_added_to_a_bundle_has_its_bounds(config: ModelConfig, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    sample.write_bundle(folder)
    there = bounds_beside(folder, ("webgpu",))
    found = bounds(config, "webgpu", beside=there)
    assert (found.context, found.batch) == (64, 2)
    assert bounds(config, "webgpu", context=128, max_batch=4, beside=there).batch == 4
    # Where all of it is compiled again it is as good as not there, and so is what is no bundle.
    assert bounds_beside(folder, ("cpu", "webgpu")) is None
    assert bounds_beside(tmp_path, ("webgpu",)) is None
    (folder / "bundle.json").write_text("{")
    assert bounds_beside(folder, ("webgpu",)) is None


@pytest.mark.parametrize(
    ("cpu", "labels"),
    [
        ("portable", [f"{[*ISAS.values()][-1].label}"]),
        ("all", [isa.label for isa in ISAS.values()]),
        ("generic-arm64", ["neon-dotprod", "neon"]),
        ("apple-m1", ["neon-dotprod-macos"]),
        (
            "portable, generic-arm64,apple-m1,generic-arm64",
            [[*ISAS.values()][-1].label, "neon-dotprod", "neon", "neon-dotprod-macos"],
        ),
    ],
)
def test_programs_for_cpus_can_be_asked_for_with_those_of_other_machines(
    cpu: str, labels: list[str], config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "version", lambda name: "0.17.1")
    assert [isa.label for isa in checked(config, "cpu", cpu=cpu).isas] == labels


@pytest.mark.parametrize("cpu", ["", "avx1024", "portable,", "generic-arm64,sve2"])
def test_a_program_that_nothing_is_called_is_refused_with_those_that_there_are(
    cpu: str, config: ModelConfig
) -> None:
    with pytest.raises(UnsupportedError, match=f"{cpu.split(',')[-1]!r} is not one of") as error:
        checked(config, "cpu", cpu=cpu)
    assert "generic-arm64 or apple-m1" in error.value.remedy


def test_what_links_for_other_machines_is_asked_for_before_any_work(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed, "version", absent)
    with pytest.raises(CompileError, match="ziglang, which is not installed"):
        checked(config, "cpu", cpu="native,apple-m1")
    assert checked(config, "cpu", cpu="native").isas
