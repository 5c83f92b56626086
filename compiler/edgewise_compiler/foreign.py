"""What people name that is no checkpoint: known by the files that lie there, each in its own words.

Only names of files are looked at, and the first bytes of a file that is named itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote

from edgewise_compiler.models.traits import PAGE
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import shorten

_ORIGINAL = (
    "Use the checkpoint that it was made from, a folder with config.json, tokenizer.json and "
    f"safetensors, or a GGUF file; see {PAGE}."
)


@dataclass(frozen=True)
class Foreign:
    """Something that lies where a checkpoint was expected.

    Attributes:
        files: globs; a folder that has one of them is this, and so is a file that matches.
        what: in words that follow "this is".
        remedy: what to do; ``{found}`` is the file that was found and ``{parent}`` its folder, as
            a shell wants them.
        inside: the model is one of the files, or further inside: only a folder can be this.
    """

    files: tuple[str, ...]
    what: str
    remedy: str = _ORIGINAL
    inside: bool = False


FOREIGN = (
    Foreign(
        ("adapter_config.json", "adapter_model.*"),
        "an adapter (LoRA), which holds only what differs from another model",
        "Merge it with peft, put the model's tokenizer.json beside it, and name merged: python -c "
        "'import sys; from peft import AutoPeftModelForCausalLM as M; "
        'M.from_pretrained(sys.argv[1]).merge_and_unload().save_pretrained("merged")\' {parent}',
    ),
    Foreign(
        ("*.gguf",),
        "a GGUF file, which is a whole checkpoint",
        "Name the file: {found}",
        inside=True,
    ),
    Foreign(
        ("tensor-cache.json", "ndarray-cache.json"),
        "a model that was converted for MLC LLM and WebLLM, without its mlc-chat-config.json",
        "Download the whole folder: mlc-chat-config.json and tokenizer.json are in it, too.",
    ),
    Foreign(("*.onnx", "onnx/*.onnx", "genai_config.json"), "a model in ONNX"),
    Foreign(("openvino_*.xml",), "a model that was converted for OpenVINO"),
    Foreign(("*.mlpackage", "*.mlmodelc", "*.mlmodel"), "a model that was converted for Core ML"),
    Foreign(("*.litertlm", "*.task", "*.tflite"), "a model that was converted for LiteRT"),
    Foreign(
        ("model_index.json",),
        "a pipeline of diffusers, which makes images",
        f"Use a model that continues text; see {PAGE}.",
    ),
    Foreign(
        ("gptq_model*.safetensors", "quantize_config.json", "quant_config.json"),
        "a checkpoint that GPTQ or AWQ has quantized",
    ),
    Foreign(
        ("consolidated*.pth", "consolidated*.safetensors", "params.json"),
        "a checkpoint as its makers store it, with names of their own",
        "Use the version of it for transformers, with config.json and model.safetensors.",
    ),
    Foreign(
        ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.ckpt"),
        "PyTorch's own format, a pickle, which can run as a program where it is read",
        "If you trust its maker, store it as safetensors, put tokenizer.json beside that, and name "
        "safe: python -c 'import sys; from transformers import AutoModelForCausalLM as M; "
        'M.from_pretrained(sys.argv[1]).save_pretrained("safe")\' {parent}',
    ),
    Foreign(("*.h5", "flax_model*.msgpack"), "a checkpoint for TensorFlow or Flax"),
    Foreign(("*.npz",), "weights in NumPy's format, as MLX once wrote them"),
    Foreign(
        ("snapshots/*/config.json",),
        "a folder of the hub's cache, with the model further inside",
        "Name the snapshot: {parent}",
        inside=True,
    ),
    Foreign(
        ("*/bundle.json", "*/config.json"),
        "a folder with models in it",
        "Name one of them, such as {parent}",
        inside=True,
    ),
)
"""What is known; what says more comes first."""

_OTHER_NAMES = Foreign(
    ("*.safetensors",),
    "a checkpoint whose files are not called as transformers calls them",
    "Save it with transformers' save_pretrained, or call the file model.safetensors where it is "
    "the only one.",
)

_FILES = (
    Foreign(
        ("*.safetensors",),
        "one file of a checkpoint",
        "Name its folder, in which config.json and tokenizer.json must be, too: {parent}",
    ),
    Foreign(
        ("*.zip", "*.tar", "*.tar.*", "*.tgz", "*.7z"),
        "an archive",
        "Unpack it and name the folder in it that has config.json.",
    ),
)

STORED = {
    ".qweight": "GPTQ or AWQ",
    ".weight_packed": "compressed-tensors",
    ".scales": "MLX",
    ".weight.absmax": "bitsandbytes",
    ".SCB": "bitsandbytes",
    ".weight_scale_inv": "fine-grained FP8",
}
"""How names of tensors end in quantized checkpoints, and what writes them so."""

_GGUF = b"GGUF"


def foreign_weights(folder: Path, lacks: str) -> UnsupportedError | None:
    """The error for a folder whose weights are not read; None where it has none that are known.

    Args:
        lacks: what it has not, in words.
    """
    return _in_folder(folder, (*FOREIGN, _OTHER_NAMES), lacks)


def foreign_model(path: Path) -> UnsupportedError | None:
    """The error for a folder without config.json, or for a file; None where nothing is known.

    Raises:
        StorageError: a file that cannot be read.
    """
    if path.is_dir():
        return _in_folder(path, FOREIGN, "config.json")
    if not path.is_file():
        return None
    with storage_errors("read", path), path.open("rb") as file:
        head = file.read(len(_GGUF))
    if head == _GGUF:
        named = quote(str(path.with_name(f"{path.name}.gguf")))
        return _refused(
            f"{shorten(path.name)} is a GGUF file and not called so.",
            f"Give it a name that ends in .gguf: ln -s {quote(str(path.absolute()))} {named}",
        )
    for kind in (*FOREIGN, *_FILES):
        if any("/" not in pattern and path.match(pattern) for pattern in kind.files):
            what = f"{path} is no folder and no GGUF file: this is {kind.what}."
            return _refused(what, _filled(kind, path))
    return None


def foreign_repository(repo: str, names: Collection[str]) -> tuple[str, str] | None:
    """What a repository with files of these names is, in words after "this is", and the remedy.

    None where nothing is known.
    """
    for kind in FOREIGN:
        for pattern in kind.files:
            depth = pattern.count("/")
            told = any(name.count("/") == depth and fnmatchcase(name, pattern) for name in names)
            if told and not kind.inside:
                return kind.what, kind.remedy.format(found=quote(repo), parent=quote(repo))
    return None


def check_floats(names: Iterable[str]) -> None:
    """Raise UnsupportedError where tensors are named as quantizers name them."""
    for name in names:
        for suffix, writer in STORED.items():
            if name.endswith(suffix):
                raise UnsupportedError(
                    f"The checkpoint has a tensor {shorten(name)}: {writer} has quantized it.",
                    remedy=_ORIGINAL,
                    code="unsupported.quantized",
                )


def _in_folder(folder: Path, kinds: Iterable[Foreign], lacks: str) -> UnsupportedError | None:
    for kind in kinds:
        for pattern in kind.files:
            found = min(folder.glob(pattern), default=None)
            if found is not None:
                inside = shorten(str(found.relative_to(folder)))
                what = f"{folder} has {inside} but no {lacks}: this is {kind.what}."
                return _refused(what, _filled(kind, found))
    return None


def _filled(kind: Foreign, found: Path) -> str:
    return kind.remedy.format(found=quote(str(found)), parent=quote(str(found.parent)))


def _refused(what: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(what, remedy=remedy, code="unsupported.weights")
