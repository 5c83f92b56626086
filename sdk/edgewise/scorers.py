"""Models that score text: a compiled one, or a GGUF file run by llama-cpp-python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

from edgewise.cache import Progress, find_bundle, find_model
from edgewise.divergence import Logits
from edgewise.engine import Engine
from edgewise.hub.names import repo_of
from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import BundleManifest
from edgewise_runtime.installed import LLAMA_CPP, need

CHECKPOINT_QUANT = "f32"
"""How a checkpoint is compiled to be scored: nothing is taken from it."""


@dataclass(frozen=True)
class Scorer:
    """A loaded model.

    Attributes:
        name: the folder's or the file's.
        program: what runs it: a program's id, or the name of another engine.
        vocab: columns of its logits.
        weights: how many numbers it has learned.
        weight_bytes: what they take as they are stored, with scales, without tables that follow
            from the configuration.
        encode: a text's ids, with what the tokenizer puts before it.
        token: how the vocabulary spells an id; None for one without a spelling to compare.
        logits: what comes after each token: float32 [tokens, vocab], to be used before the next
            call.
    """

    name: str
    program: str
    vocab: int
    weights: int
    weight_bytes: int
    encode: Callable[[str], list[int]]
    token: Callable[[int], str | None]
    logits: Callable[[Sequence[int]], Logits]


def run_by_llama_cpp(path: Path) -> bool:
    """Whether a model is run as it is, by llama.cpp: what the file says is what is scored."""
    return path.suffix.lower() == ".gguf" and not path.is_dir()


def open_scorer(
    path: Path, *, context: int, threads: int | None, trust: bool, progress: Progress | None
) -> AbstractContextManager[Scorer]:
    """Load a bundle, a checkpoint (compiled once, to float32) or a ``.gguf`` file, by any name.

    Raises:
        EdgewiseError: whatever is wrong with it, some of it when the context is entered.
    """
    path = find_model(path, progress)
    if run_by_llama_cpp(path):
        return _gguf(path, context, threads)
    return _compiled(path, context, threads, trust, progress)


@contextmanager
def _compiled(
    path: Path, context: int, threads: int | None, trust: bool, progress: Progress | None
) -> Iterator[Scorer]:
    found = find_bundle(path, quant=CHECKPOINT_QUANT, context=context, progress=progress)
    with Engine(found, context=context, threads=threads, trust=trust) as engine:
        manifest = Bundle.open(found, verify=False).manifest
        layout = manifest.program(engine.program).layout
        yield Scorer(
            repo_of(path).rpartition("/")[2] or path.resolve().name,
            engine.program,
            engine.model.vocab,
            *_weights(manifest, layout),
            engine.tokenizer.encode,
            engine.tokenizer.token_of,
            engine.score,
        )


def _weights(manifest: BundleManifest, layout: str) -> tuple[int, int]:
    """How many weights a decoder has, by its shape, and their bytes in a layout.

    How a matrix is packed and padded is its scheme's and the layout's business, so the numbers of
    its rows and columns come from the model.
    """
    model, tensors = manifest.model, manifest.layouts[layout]
    vocabularies = 1 + any(name.startswith("lm_head.") for name in tensors)
    attention = model.hidden * model.head_dim * 2 * (model.heads + model.kv_heads)
    layer = attention + 3 * model.hidden * model.intermediate
    vectors = sum(
        prod(entry.shape)
        for name, entry in tensors.items()
        if name.endswith(("norm.weight", ".bias"))
    )
    count = vocabularies * model.vocab * model.hidden + model.layers * layer + vectors
    return count, sum(entry.bytes for name, entry in tensors.items() if name != "rope")


@contextmanager
def _gguf(path: Path, context: int, threads: int | None) -> Iterator[Scorer]:
    if not path.is_file():
        raise InputError(f"There is no file {path}.", remedy="Check the path.", code="input.model")
    need(LLAMA_CPP)
    import llama_cpp

    try:
        model = llama_cpp.Llama(
            model_path=str(path),
            n_ctx=context,
            n_batch=context,
            n_threads=threads,
            n_threads_batch=threads,
            logits_all=True,
            verbose=False,
        )
    except (ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"llama.cpp cannot load {path}: {error}.", code="checkpoint.gguf"
        ) from error
    vocabulary = llama_cpp.llama_model_get_vocab(model.model)

    def encode(text: str) -> list[int]:
        # It adds a beginning token where the file says that there is one.
        return list(model.tokenize(text.encode(), add_bos=True, special=True))

    def token(index: int) -> str | None:
        # Added tokens may be spelled otherwise than in the checkpoint that a file was made from.
        kind = llama_cpp.llama_vocab_get_attr(vocabulary, index)
        if not kind & llama_cpp.LLAMA_TOKEN_ATTR_NORMAL:
            return None
        spelled: bytes = llama_cpp.llama_vocab_get_text(vocabulary, index)
        return spelled.decode(errors="replace")

    def logits(ids: Sequence[int]) -> Logits:
        model.reset()
        model.eval(ids)
        rows: Logits = model.scores[: len(ids)]
        return rows

    try:
        yield Scorer(
            path.name,
            f"llama-cpp-python {llama_cpp.__version__}",
            model.n_vocab(),
            llama_cpp.llama_model_n_params(model.model),
            llama_cpp.llama_model_size(model.model),
            encode,
            token,
            logits,
        )
    finally:
        model.close()
