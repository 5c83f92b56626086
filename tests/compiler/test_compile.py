"""The pipeline as a whole: what a broken checkpoint or a full disk leaves behind is nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts import shards
from edgewise_runtime.errors import CompileError, EdgewiseError, StorageError
from edgewise_runtime.folders import new_folder
from edgewise_runtime.format.bundle import Bundle
from tests.disks import file_sizes_limited
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import make_weights
from tests.parity.storing import write_weights

CASE = "llama-mha"
PARTS = ("qkv", "o", "gate_up", "down")
Weights = dict[str, "np.typing.NDArray[np.float32]"]


def rewrite(folder: Path, change: Callable[[Weights], None]) -> None:
    weights = make_weights(CASES[CASE])
    change(weights)
    write_weights(folder, weights, "F32", 1)


def edit_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    os.truncate(path, path.stat().st_size - 100)


def lengthen(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(bytes(100))


def drop(folder: Path) -> None:
    def change(weights: Weights) -> None:
        del weights["model.layers.1.mlp.up_proj.weight"]

    rewrite(folder, change)


def misshape(folder: Path) -> None:
    def change(weights: Weights) -> None:
        name = "model.layers.0.self_attn.k_proj.weight"
        weights[name] = weights[name][:-1]

    rewrite(folder, change)


def poison(folder: Path) -> None:
    def change(weights: Weights) -> None:
        weights["model.layers.1.mlp.down_proj.weight"][3, 5] = np.nan

    rewrite(folder, change)


BREAKERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated tensors": (truncate, "checkpoint."),
    "oversized file": (lengthen, "checkpoint."),
    "missing tensor": (drop, "checkpoint."),
    "misshaped tensor": (misshape, "checkpoint.shape"),
    "NaN in a weight": (poison, "checkpoint."),
    "unknown architecture": (
        lambda folder: edit_config(folder, architectures=["MambaForCausalLM"]),
        "unsupported.architecture",
    ),
    "broken tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text('{"model": 7}'),
        "checkpoint.",
    ),
    "folder without config": (lambda folder: (folder / "config.json").unlink(), "checkpoint."),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "checkpoint."),
}


@pytest.mark.parametrize("name", BREAKERS)
def test_a_broken_checkpoint_is_a_clear_error_and_leaves_nothing(
    name: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    breaker, code = BREAKERS[name]
    source = shutil.copytree(checkpoints(CASE), tmp_path / "checkpoint")
    breaker(source)
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(EdgewiseError) as caught:
        compile_model(source, target / "bundle")
    assert caught.value.code.startswith(code)
    assert caught.value.remedy
    assert list(target.iterdir()) == []


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(
    checkpoints: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shards.os, "posix_fallocate", full)
    with pytest.raises(StorageError) as caught:
        compile_model(checkpoints(CASE), tmp_path / "bundle")
    assert caught.value.code == "storage.full"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("phase", ["Packing weights", "Compiling for", "Writing the bundle"])
def test_an_interrupt_leaves_nothing(
    phase: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    def interrupt(now: str, done: int, total: int) -> None:
        if now.startswith(phase):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_model(checkpoints(CASE), tmp_path / "bundle", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_files_larger_than_the_disk_takes_are_a_clear_error_and_leave_nothing(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    with file_sizes_limited(4096), pytest.raises(StorageError) as caught:
        compile_model(checkpoints(CASE), tmp_path / "dist/bundle")
    assert caught.value.code == "storage.full"
    assert list(tmp_path.iterdir()) == []


def test_no_folder_for_temporary_files_is_needed(
    checkpoints: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    # As the bundles that other tests share: what TVM made for them is kept.
    case = "llama-gqa2-tied-linear"
    out = compile_model(checkpoints(case), tmp_path / "bundle", quant="q4", prefill_chunk=128)
    assert Bundle.open(out).manifest.programs
    assert not list(out.rglob("*.o"))


def test_a_place_that_cannot_be_written_is_found_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="/sys/bundle") as caught:
        compile_model(tmp_path / "nowhere", "/sys/bundle")
    assert caught.value.code == "storage.permission"
    assert caught.value.remedy


def test_a_missing_c_compiler_is_found_before_any_work(
    checkpoints: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    heard: set[str] = set()
    with pytest.raises(CompileError) as caught:
        compile_model(
            checkpoints(CASE),
            tmp_path / "bundle",
            bits=5.0,
            progress=lambda phase, done, total: heard.add(phase),
        )
    assert caught.value.code == "compile.linker"
    assert not heard
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [".", ".."])
def test_a_folder_that_has_no_name_is_no_place_for_a_bundle(
    place: str, checkpoints: Callable[[str], Path]
) -> None:
    with pytest.raises(StorageError) as caught:
        compile_model(checkpoints(CASE), place)
    assert "-o" in caught.value.remedy


def test_a_folder_that_is_no_bundle_is_never_replaced(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(StorageError) as caught:
        compile_model(checkpoints(CASE), tmp_path)
    assert caught.value.code == "storage.exists"
    assert (tmp_path / "thesis.txt").read_text() == "three years of work"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"quant": "q3"}, "unsupported.scheme"),
        ({"targets": ("abacus",)}, "unsupported.target"),
        ({"context": 0}, "input.range"),
        ({"context": 257}, "input.range"),
        ({"max_batch": 0}, "input.range"),
        ({"max_batch": 257}, "input.range"),
        ({"prefill_chunk": -1}, "input.range"),
        ({"cpu": "z80"}, "unsupported"),
    ],
)
def test_an_option_out_of_range_is_refused(
    options: dict[str, object], code: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(EdgewiseError) as caught:
        compile_model(checkpoints(CASE), tmp_path / "bundle", **options)  # type: ignore[arg-type]
    assert caught.value.code.startswith(code)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.landing
def test_a_recipe_gives_each_tensor_its_scheme(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    recipe = tmp_path / "ends.toml"
    recipe.write_text(
        'name = "ends-q8"\ndefault = "q4"\n'
        '[[rule]]\ntensors = ["*embed_tokens.weight", "*.1.self_attn.*"]\nscheme = "q8"\n'
    )
    bundle = Bundle.open(
        compile_model(
            checkpoints("llama-gqa2-tied-linear"),
            tmp_path / "bundle",
            targets=("cpu", "webgpu"),
            recipe=recipe,
            prefill_chunk=128,
        )
    )
    assert (bundle.model.quant, bundle.model.recipe) == ("q4", "ends-q8")
    assert any(program.id.startswith("cpu-w4a8-") for program in bundle.manifest.programs)
    for tensors in bundle.manifest.layouts.values():
        bits = {
            name: tensors[f"{name}.weight"].bytes * 8 // (tensors[f"{name}.scale"].bytes * 16)
            for name in ("embed", *(f"layers.{i}.{part}" for i in range(2) for part in PARTS))
        }
        eight = {"embed", "layers.1.qkv", "layers.1.o"}
        assert bits == {name: 8 if name in eight else 4 for name in bits}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ('tensors = "*.q_proj.weight"\nscheme = "q8"', "unsupported.recipe"),
        ('tensors = "*.x_proj.weight"\nscheme = "q8"', "input.recipe"),
    ],
)
def test_a_recipe_that_does_not_fit_the_model_is_refused(
    rule: str, code: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    recipe = tmp_path / "odd.toml"
    recipe.write_text(f'name = "odd"\ndefault = "q4"\n[[rule]]\n{rule}\n')
    with pytest.raises(EdgewiseError) as caught:
        compile_model(checkpoints(CASE), tmp_path / "bundle", recipe=recipe)
    assert caught.value.code == code
    assert not (tmp_path / "bundle").exists()


@pytest.mark.landing
def test_a_bundle_can_be_compiled_again_in_place(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    out = compile_model(checkpoints(CASE), tmp_path / "bundle", quant="q8", max_batch=1)
    first = Bundle.open(out)
    compile_model(checkpoints(CASE), out, quant="q4", prefill_chunk=128)
    second = Bundle.open(out)
    assert (first.model.quant, second.model.quant) == ("q8", "q4")
    assert second.model.max_batch == 32
    # Who has opened the first one can read it to the end.
    first.check()
    first.close()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


@pytest.mark.landing
def test_the_dump_holds_graphs_plans_and_kernels(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    compile_model(checkpoints(CASE), tmp_path / "bundle", prefill_chunk=128, debug_dump=dump)
    names = {path.name.split(".")[0] for path in dump.rglob("*") if path.is_file()}
    assert names == {"graph", "plan", "host", "kernel"}


def test_a_compilation_waits_for_another_of_the_same_bundle(tmp_path: Path) -> None:
    """What the other has made is to be kept, so it must be there before this one begins."""
    told: Queue[tuple[str, int, int]] = Queue()
    with ThreadPoolExecutor(1) as pool:
        with new_folder(tmp_path / "bundle", replace=True):
            second = pool.submit(
                compile_model,
                tmp_path / "no checkpoint",
                tmp_path / "bundle",
                progress=lambda *step: told.put(step),
            )
            assert told.get(timeout=60) == ("Waiting for another compilation", 0, 1)
            assert not second.done()
        with pytest.raises(EdgewiseError):
            second.result()
    assert told.get_nowait() == ("Waiting for another compilation", 1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
