"""What is no checkpoint is refused in words about what it is, and what to do with it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from edgewise.cache import find_bundle
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.foreign import FOREIGN, STORED, foreign_model
from edgewise_compiler.models.traits import PAGE
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.compiler.gguf.writing import write_gguf

Checkpoints = Callable[[str], Path]
CASE = "llama-mha"
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


@pytest.fixture
def folder(checkpoints: Checkpoints, tmp_path: Path) -> Path:
    """A good checkpoint to take something away from."""
    copied = tmp_path / "a model"
    copied.mkdir()
    for file in checkpoints(CASE).iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    return copied


def refused(path: Path) -> EdgewiseError:
    """What compiling says, which is what chatting says, too."""
    with pytest.raises(EdgewiseError) as compiling:
        open_checkpoint(path)
    assert compiling.value.remedy
    assert len(compiling.value.message) < 500
    return compiling.value


FOLDERS = {
    "adapter_config.json": "an adapter (LoRA)",
    "model-Q4_K_M.gguf": "a GGUF file",
    "tensor-cache.json": "MLC LLM and WebLLM",
    "model.onnx": "ONNX",
    "onnx/model_q4.onnx": "ONNX",
    "openvino_model.xml": "OpenVINO",
    "model.mlpackage": "Core ML",
    "gemma.task": "LiteRT",
    "model_index.json": "diffusers",
    "gptq_model-4bit-128g.safetensors": "GPTQ or AWQ",
    "quant_config.json": "GPTQ or AWQ",
    "consolidated.00.pth": "as its makers store it",
    "pytorch_model-00001-of-00002.bin": "a pickle",
    "model.pt": "a pickle",
    "checkpoint.pth": "a pickle",
    "tf_model.h5": "TensorFlow or Flax",
    "weights.00.npz": "as MLX once wrote them",
    "snapshots/0123abc/config.json": "a folder of the hub's cache",
    "llama-3b/config.json": "a folder with models in it",
}


@pytest.mark.parametrize("file", FOLDERS)
def test_a_folder_is_told_by_what_lies_in_it(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"{}")
    error = refused(tmp_path)
    assert f"has {file!r} but no config.json: this is " in error.message
    assert FOLDERS[file] in error.message
    assert error.code == "unsupported.weights"
    with pytest.raises(UnsupportedError) as chatting:
        find_bundle(tmp_path)
    assert str(chatting.value) == str(error)


def test_every_kind_of_folder_is_tested() -> None:
    told = {kind.what for kind in FOREIGN if not any(w in kind.what for w in FOLDERS.values())}
    assert told == set()


@pytest.mark.parametrize(
    "file", [file for file in FOLDERS if "config.json" not in file or "adapter" in file]
)
def test_weights_are_told_where_only_they_are_foreign(folder: Path, file: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(b"{}")
    error = refused(folder)
    assert f"has {file!r} but no model.safetensors and no model.saf" in error.message
    assert FOLDERS[file] in error.message


@pytest.mark.parametrize("file", FOLDERS)
def test_what_lies_beside_a_whole_checkpoint_does_not_matter(folder: Path, file: str) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(b"{}")
    open_checkpoint(folder).close()


def test_a_remedy_can_be_typed_whatever_the_path(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "it's.gguf").write_bytes(b"GGUF")
    remedy = refused(folder).remedy
    assert remedy.startswith("Name the file: ")
    (typed,) = typed_words(remedy.removeprefix("Name the file: "))
    assert Path(typed) == folder / "it's.gguf"


def typed_words(line: str) -> list[str]:
    """What a shell makes of a line, word by word."""
    done = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("file", "module"), [("adapter_config.json", "peft"), ("pytorch_model.bin", "transformers")]
)
def test_a_program_in_a_remedy_is_one(folder: Path, file: str, module: str) -> None:
    (folder / "config.json").unlink()
    (folder / file).write_bytes(b"{}")
    _, _, line = refused(folder).remedy.partition("python -c ")
    program, argument = typed_words(line)
    assert argument == str(folder)
    compile(program, "remedy", "exec")
    assert f"from {module} import " in program


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("pytorch_model.bin", "a pickle"),
        ("model.pth", "a pickle"),
        ("adapter_model.safetensors", "an adapter (LoRA)"),
        ("model.onnx", "ONNX"),
        ("model-00001-of-00002.safetensors", "one file of a checkpoint"),
        ("model.tar.gz", "an archive"),
        ("phi.zip", "an archive"),
    ],
)
def test_a_lone_file_is_told_by_its_name(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / file).write_bytes(b"something")
    error = refused(tmp_path / file)
    assert f"{file} is no folder and no GGUF file: this is " in error.message
    assert said in error.message
    with pytest.raises(UnsupportedError) as chatting:
        find_bundle(tmp_path / file)
    assert str(chatting.value) == str(error)


def test_a_gguf_file_by_another_name_can_be_linked_to(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    blob = write_gguf(checkpoints(CASE), tmp_path / "model.gguf").rename(tmp_path / "sha256-0f1e")
    error = refused(blob)
    assert "'sha256-0f1e' is a GGUF file and not called so" in error.message
    _, _, line = error.remedy.partition(": ")
    subprocess.run(["sh", "-c", line], check=True)
    open_checkpoint(tmp_path / "sha256-0f1e.gguf").close()


def test_nothing_is_said_of_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert foreign_model(tmp_path) is None
    assert foreign_model(tmp_path / "notes.txt") is None
    assert foreign_model(tmp_path / "nowhere") is None


@pytest.mark.parametrize("suffix", STORED)
def test_tensors_of_quantizers_are_told_by_their_names(folder: Path, suffix: str) -> None:
    name = f"model.layers.0.self_attn.q_proj{suffix}"
    save_file({name: np.ones((2, 2), np.int32)}, folder / "model.safetensors")
    error = refused(folder)
    assert repr(name) in error.message
    assert STORED[suffix] in error.message
    assert error.code == "unsupported.quantized"
    assert PAGE in error.remedy


@pytest.mark.parametrize(
    ("content", "said", "remedy"),
    [
        (POINTER, "is a pointer of git-lfs", "git lfs install; git -C "),
        (b"<!DOCTYPE html>\n<html>", "is a web page", "Download the file itself"),
    ],
)
@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.json", "generation_config.json", "model.safetensors"]
)
def test_a_file_that_was_not_fetched_says_so(
    folder: Path, file: str, content: bytes, said: str, remedy: str
) -> None:
    (folder / file).write_bytes(content)
    error = refused(folder)
    assert error.message.startswith(f"{file} {said}")
    assert remedy in error.remedy
    assert error.code == "checkpoint.fetched"


@pytest.mark.parametrize(
    "file", ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]
)
def test_a_shard_and_an_index_that_were_not_fetched_say_so(folder: Path, file: str) -> None:
    shard = (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"model.norm.weight": shard.name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / file).write_bytes(POINTER)
    assert refused(folder).message.startswith(f"{file} is a pointer of git-lfs")


def test_a_gguf_file_that_was_not_fetched_says_so(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(POINTER)
    error = refused(path)
    assert isinstance(error, CheckpointError)
    assert error.message.startswith("model.gguf is a pointer of git-lfs")
    assert error.remedy.endswith(f"git -C {tmp_path} lfs pull")


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.bin")
    assert foreign_model(tmp_path / "model.bin") is None
