"""Opens a checkpoint and checks everything that can be checked early.

A checkpoint is a folder in Hugging Face layout, or a GGUF file or a folder of MLC LLM, which are
read as the folder that they stand for. What is read here came from the network. Nothing is
executed, sizes are bounded, and what opens is a checkpoint whose parameters, shapes and token ids
fit together; only the values of the weights are still unseen (they are checked as they are read).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer

from edgewise_compiler.foreign import check_floats, foreign_model
from edgewise_compiler.gguf.names import is_gguf
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.gguf.source import translate
from edgewise_compiler.gguf.tensors import CheckpointTensors
from edgewise_compiler.mlc.config import read_config
from edgewise_compiler.mlc.names import CONFIG, is_mlc
from edgewise_compiler.mlc.reader import MlcReader
from edgewise_compiler.mlc.source import translate as translate_mlc
from edgewise_compiler.models.base import Family, ModelConfig
from edgewise_compiler.models.decoder import check_eos_count
from edgewise_compiler.models.families import find_family
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.text_part import text_part, text_tensors
from edgewise_compiler.packed.reader import PackedReader
from edgewise_compiler.packed.table import unpacked
from edgewise_compiler.quantize.codes import Holders
from edgewise_compiler.vectors import as_file, ranks, read_said, vector_rules, yes_less_no
from edgewise_compiler.weights.bare import HEAD, is_bare, with_prefix
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import check_fetched, checkpoint_json
from edgewise_compiler.weights.padded import PaddedReader, find_paddings
from edgewise_compiler.weights.params import check_param, param_sources
from edgewise_compiler.weights.renamed import RenamedReader
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_compiler.weights.views import ViewReader, viewed
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer import open_tokenizer
from edgewise_runtime.format.vectors import NAME as VECTORS

MAX_BYTES = {
    "config.json": 4 << 20,
    CONFIG: 4 << 20,
    "generation_config.json": 4 << 20,
    "tokenizer.json": 64 << 20,
    "tokenizer_config.json": 16 << 20,
    "special_tokens_map.json": 4 << 20,
    "chat_template.jinja": 4 << 20,
}
"""Files that are read whole, and how large each may be."""

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
"""What a bundle carries along when the checkpoint has it."""

NEEDED = {
    "config.json": (
        "checkpoint.folder",
        "Give a complete checkpoint folder as Hugging Face transformers saves it.",
    ),
    "tokenizer.json": (
        "checkpoint.tokenizer",
        "Save the tokenizer with transformers' AutoTokenizer(...).save_pretrained; "
        "tokenizer.model and vocab.txt alone are not read.",
    ),
}
"""Files that a folder must have; the code and the remedy of the error where it has not."""

IGNORED_SUFFIXES = (".rotary_emb.inv_freq", ".masked_bias", ".attn.bias")
"""Buffers that old checkpoints stored beside their weights; they are computed anew."""


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint; a context manager that closes the weight files.

    Attributes:
        config: config.json as parsed, without what it says of how weights are quantized.
        model: config.json as understood, with the end tokens of generation_config.json added.
        files: contents of those of :data:`TOKENIZER_FILES` that it has.
        tokens: one more than the tokenizer's largest id.
        chat_template: Jinja source from chat_template.jinja or tokenizer_config.json; of several
            named templates the one called ``default``. None for a base model.
        held: the schemes that hold each matrix that is quantized already.
    """

    path: Path
    config: Mapping[str, Any]
    family: Family
    model: ModelConfig
    weights: WeightReader
    files: Mapping[str, bytes]
    tokens: int
    chat_template: str | None
    held: Mapping[str, Holders] = field(default_factory=dict)

    def close(self) -> None:
        """Close the weight files."""
        self.weights.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open the checkpoint folder, the folder of MLC LLM or the GGUF file at ``path``.

    Raises:
        CheckpointError: neither of them, a file that is missing or malformed, or files that do not
            fit together: a missing, extra or mis-shaped tensor, a token id beyond the vocabulary.
        UnsupportedError: an architecture, option or file format that is not implemented.
        StorageError: a file that cannot be read.
    """
    path = Path(path)
    with ExitStack() as stack:
        tensors: CheckpointTensors | PackedReader | MlcReader | None = None
        if is_gguf(path):
            files, tensors = translate(stack.enter_context(GgufReader(path)))
        elif is_mlc(path):
            small = _read_files(path, CONFIG)
            tensors = stack.enter_context(MlcReader(path))
            files = translate_mlc(small, tensors)
        else:
            files = _read_files(path)
        config, matrices = unpacked(_object(files, "config.json"))
        part = text_part(config)
        config = config if part is None else part
        family = find_family(config)
        model = family.read_config(config)
        model = replace(model, eos=_all_eos(files, model))
        backend = open_tokenizer(files["tokenizer.json"], "tokenizer.json").backend
        tokens = _count_tokens(backend, model.vocab)
        template = _chat_template(files)
        if tensors is None:
            reader = stack.enter_context(SafetensorsReader(path))
            tensors = None if matrices is None else PackedReader(reader, matrices(reader))
        weights: WeightReader = tensors or reader
        if tensors is None and is_bare(weights):
            weights = RenamedReader(weights, with_prefix(weights.names()))
            # What it gives is states: logits of it mean nothing, and are those of the table.
            model = replace(model, tied=model.tied or HEAD not in weights.names())
        held = {} if tensors is None else tensors.held()
        if part is not None:
            names = text_tensors(weights.names())
            weights = RenamedReader(weights, names)
            held = {ours: held[name] for ours, name in names.items() if name in held}
        model = replace(model, tied=model.tied and not _has_own_head(weights))
        # Before anything is padded: errors say the shapes that the files have to have.
        stored = replace(model, head_dim=model.stored_head_dim)
        views = family.views(stored)
        # What is packed has the names of the family already.
        names_now = set(weights.names())
        views = {
            name: view
            for name, view in views.items()
            if name not in names_now or view.source in names_now
        }
        if views:
            weights = ViewReader(weights, views)
        check_tensors(family, stored, weights)
        paddings = find_paddings(family.params(stored), family.params(model))
        held = viewed(held, views)
        rules = {} if VECTORS in files else _vector_rules(path, weights, backend, model)
        stack.pop_all()
    carried = {name: files[name] for name in (*TOKENIZER_FILES, VECTORS) if name in files}
    if rules:
        carried[VECTORS] = as_file(rules)
    if paddings:
        weights = PaddedReader(weights, paddings, model.stored_head_dim, model.head_dim)
        # Codes of a file are for its own columns and rows.
        held = {name: schemes for name, schemes in held.items() if name not in paddings}
    return Checkpoint(path, config, family, model, weights, carried, tokens, template, held)


def _vector_rules(
    path: Path, weights: WeightReader, backend: Tokenizer, model: ModelConfig
) -> dict[str, Any]:
    """What vectors.json is to say; nothing of checkpoints that say nothing of vectors. Of a file
    only the name is looked at."""
    said = read_said(path)
    rules = vector_rules(said)
    if ranks(said, model):
        rules["yes_less_no"] = yes_less_no(weights, backend, model)
    return rules


def check_tensors(family: Family, model: ModelConfig, weights: WeightReader) -> None:
    """Raise CheckpointError unless ``weights`` has what the family needs, in shape, and no more.

    Raises:
        UnsupportedError: they are named as quantizers name them.
    """
    check_floats(weights.names())
    unused = set(weights.names())
    for spec in family.params(model):
        check_param(spec, weights)
        unused -= param_sources(spec).keys()
    if model.tied:
        unused.discard("lm_head.weight")
    left = sorted(name for name in unused if not name.endswith(IGNORED_SUFFIXES))
    if left:
        raise CheckpointError(
            f"The checkpoint has {len(left)} tensors that {family.name} does not use, "
            f"such as {shorten(left[0])}.",
            remedy="Check 'architectures' and the bias options in config.json.",
            code="checkpoint.weights",
        )


def check_config(raw: bytes, name: str = "config.json") -> None:
    """Raise what `open_checkpoint` would for the model that a configuration describes.

    Args:
        name: of the file: config.json, or what a folder of MLC LLM has.
    """
    config: Mapping[str, Any] = _object({name: raw}, name)
    if name == CONFIG:
        config, _ = read_config(config, ())
    else:
        config, _ = unpacked(config)
        config = text_part(config) or config
    find_family(config).read_config(config)


def _read_files(folder: Path, config: str = "config.json") -> dict[str, bytes]:
    """The files of :data:`MAX_BYTES` that a folder has, of configurations only ``config``."""
    if not folder.is_dir():
        raise foreign_model(folder) or CheckpointError(
            f"{folder} is no folder and no GGUF file."
            if folder.exists()
            else f"There is no folder {folder}.",
            remedy="Give a checkpoint folder with config.json, tokenizer.json and safetensors, or "
            "a GGUF file.",
            code="checkpoint.folder",
        )
    others = {"config.json", CONFIG} - {config}
    for name, (code, remedy) in NEEDED.items():
        if name not in others and not (folder / name).is_file():
            known = foreign_model(folder) if name == "config.json" else None
            raise known or CheckpointError(f"{folder} has no {name}.", remedy=remedy, code=code)
    names = (name for name in MAX_BYTES if name not in others)
    return {name: _read(folder / name) for name in names if (folder / name).is_file()}


def _read(path: Path) -> bytes:
    limit = MAX_BYTES[path.name]
    with storage_errors("read", path):
        check_fetched(path)
        size = path.stat().st_size
        if size > limit:
            raise CheckpointError(
                f"{path.name} has {size} bytes; at most {limit} are read.",
                remedy="Download the checkpoint again.",
                code="checkpoint.file",
            )
        return path.read_bytes()


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    content = checkpoint_json(files[name], Path(name))
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{name} holds {shorten(content)} instead of an object.",
            remedy="Download the checkpoint again.",
            code="checkpoint.file",
        )
    return content


def _all_eos(files: Mapping[str, bytes], model: ModelConfig) -> tuple[int, ...]:
    """End tokens of config.json, then those that only generation_config.json has."""
    name = "generation_config.json"
    if name not in files:
        return model.eos
    more = ConfigFields(_object(files, name), name).token_ids("eos_token_id", model.vocab)
    eos = tuple(dict.fromkeys(model.eos + more))
    check_eos_count(eos)
    return eos


def _count_tokens(backend: Tokenizer, vocab: int) -> int:
    ids = backend.get_vocab(with_added_tokens=True).values()
    count = max(ids, default=-1) + 1
    if not 0 < count <= vocab:
        raise CheckpointError(
            f"tokenizer.json has ids up to {count - 1}, config.json a vocabulary of {vocab}.",
            remedy="Use the tokenizer of this checkpoint, or resize the model's embeddings to it.",
            code="checkpoint.tokenizer",
        )
    return count


def _chat_template(files: Mapping[str, bytes]) -> str | None:
    name = "chat_template.jinja"
    if name in files:
        try:
            return files[name].decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad_template(name, "bytes that are not UTF-8") from error
    name = "tokenizer_config.json"
    if name not in files:
        return None
    found = _object(files, name).get("chat_template")
    if found is None or isinstance(found, str):
        return found
    if not isinstance(found, list):
        raise _bad_template(name, shorten(found))
    named: dict[str, str] = {}
    for item in found:
        key, source = (item.get(k) if isinstance(item, dict) else None for k in _NAMED)
        if not isinstance(key, str) or not isinstance(source, str):
            raise _bad_template(name, shorten(item))
        named[key] = source
    return named.get("default", next(iter(named.values())) if len(named) == 1 else None)


_NAMED = ("name", "template")


def _bad_template(file: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"The chat template in {file} is {what}.",
        remedy="It should be a string, or a list of objects with 'name' and 'template'.",
        code="checkpoint.tokenizer",
    )


def _has_own_head(weights: WeightReader) -> bool:
    """Whether a checkpoint that says its head is tied stores a different one, which then counts.

    transformers decides the same way: some tools save the tied head a second time, others forget to
    change ``tie_word_embeddings`` after training a head.
    """
    head, embed = "lm_head.weight", "model.embed_tokens.weight"
    if head not in weights.names() or embed not in weights.names():
        return False
    shape = weights.shape(head)
    if shape != weights.shape(embed) or len(shape) != 2:
        return True
    step = max(1, (1 << 20) // max(1, shape[1]))
    return not all(
        np.array_equal(
            weights.read(head, start, min(start + step, shape[0])),
            weights.read(embed, start, min(start + step, shape[0])),
        )
        for start in range(0, shape[0], step)
    )
