"""Writes ``families.json``: what llama.cpp answers with the tiny models of every architecture.

Run from the repository root where llama-cpp-python can be imported:

    python -m tests.compiler.gguf.make_family_goldens
    python -m tests.compiler.gguf.make_family_goldens --types Q4_K_M Q6_K     only compares

The second form makes the models 256 wide and has llama.cpp's quantizer make the types of each. For
every file it prints how many of llama.cpp's greedy tokens ours finds likeliest after the same text,
how far apart the two are where it finds another one, and the deviation of logits.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.gguf.source import translate
from tests.compiler.gguf.tiny import OTHERWISE, TINY, write_tiny
from tests.compiler.gguf.writing import write_gguf
from tests.parity import reference
from tests.parity.case import CONTEXT

GOLDENS = Path(__file__).with_name("families.json")
PROMPT, ANSWER = 40, 24
MIXED = {"attn_v": "Q8_0", "attn_qkv": "Q5_0", "ffn_down": "Q5_1", "token_embd": "Q8_0"}
"""What a mixture has instead of Q4_1, as llama.cpp's quantizer mixes types."""

KINDS: dict[str, dict[str, Any]] = {
    "F32": {"kind": "F32"},
    "Q8_0": {"kind": "Q8_0"},
    "Q4_0": {"kind": "Q4_0"},
    "mixed": {"kind": "Q4_1", "kinds": MIXED},
}
"""Options of `write_gguf`."""
MORE: dict[str, dict[str, dict[str, Any]]] = {
    "gpt-oss": {"MXFP4": {"kind": "Q8_0", "kinds": {"_exps": "MXFP4"}}},
}
"""Types of one model alone."""

Logits = NDArray[Any]


def kinds_of(name: str) -> dict[str, dict[str, Any]]:
    """By name, the types that a model's files are written in."""
    return KINDS | MORE.get(name, {})


def prompt(name: str) -> list[int]:
    """Tokens that a model goes on with."""
    raw = np.random.PCG64(TINY[name].seed).random_raw(PROMPT) % np.uint64(320)
    found: list[int] = raw.tolist()
    return found


def answer(path: Path, tokens: list[int]) -> tuple[list[int], Logits]:
    """llama.cpp's greedy tokens and the logits that chose them; keys and values are float32."""
    import llama_cpp

    model = llama_cpp.Llama(
        model_path=str(path),
        n_ctx=CONTEXT,
        n_threads=1,
        n_threads_batch=1,
        logits_all=True,
        verbose=False,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
    )
    found: list[int] = []
    rows: list[Logits] = []
    model.eval(tokens)
    for _ in range(ANSWER):
        rows.append(np.array(model.scores[model.n_tokens - 1], np.float64))
        found.append(int(rows[-1].argmax()))
        model.eval(found[-1:])
    model.close()
    return found, np.stack(rows)


def our_logits(path: Path, config: Mapping[str, Any], tokens: list[int]) -> Logits:
    """Logits after each token by NumPy in float64, float64 ``[n, vocab]``.

    Args:
        config: of the checkpoint that the file was written from.
    """
    with GgufReader(path) as reader:
        _, tensors = translate(reader)
        weights = {name: tensors.read(name) for name in tensors.names()}
    with open_checkpoint(path) as file:
        cfg = file.model
    return reference.logits(cfg, reference.as_computed(weights, config), tokens)


def gaps(ours: Logits, answered: list[int]) -> Logits:
    """How far our likeliest token lies above each of llama.cpp's."""
    found: Logits = ours.max(axis=1) - ours[np.arange(len(answered)), answered]
    return found


def told(name: str, kind: str, path: Path) -> list[int]:
    """llama.cpp's answer, and a line about ours."""
    answered, theirs = answer(path, prompt(name))
    config = json.loads((path.parent / "config.json").read_text())
    ours = our_logits(path, config, [*prompt(name), *answered[:-1]])[PROMPT - 1 :]
    apart, off = gaps(ours, answered), np.sqrt((ours - theirs).var(axis=1).mean())
    same = int((apart == 0).sum())
    print(f"{name} {kind}: {same} of {ANSWER}, gap {apart.max():.4f}, logits {off:.5f} apart")
    return answered


def each(
    folder: Path,
    change: Callable[[Any], Any],
    kinds: Callable[[str], Collection[str]],
    write: Callable[[Path, str], Path],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, case in TINY.items():
        if name not in OTHERWISE:
            model = write_tiny(name, folder / name, change(case))
            found[name] = {kind: told(name, kind, write(model, kind)) for kind in kinds(name)}
    return found


def main() -> None:
    """Write the file, or compare types that only llama.cpp's quantizer writes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--types", nargs="+", default=[])
    types = parser.parse_args().types
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if types:
            each(place, wide, lambda name: types, quantized)
            return

        def written(model: Path, kind: str) -> Path:
            return write_gguf(model, model / f"{kind}.gguf", **kinds_of(model.name)[kind])

        found = each(place, lambda case: case, kinds_of, written)
    import llama_cpp

    GOLDENS.write_text(json.dumps({"llama_cpp": llama_cpp.__version__, **found}) + "\n")


def wide(case: Any) -> Any:
    """The same with rows of whole blocks of 256."""
    more = {"hidden_size": 256, "head_dim": 64, "intermediate_size": 256}
    config = {**case.config, **more}
    if case.sinks:
        config["head_dim"] = case.config["head_dim"]  # of 16 heads
    sizes = {"query_pre_attn_scalar": 64, "moe_intermediate_size": 256}
    sizes |= dict.fromkeys(("shared_expert_intermediate_size", "shared_intermediate_size"), 256)
    config |= {key: size for key, size in sizes.items() if key in config}
    if scaling := config.get("rope_scaling"):
        lists = {key: value * 2 for key, value in scaling.items() if isinstance(value, list)}
        config["rope_scaling"] = {**scaling, **lists}
    return replace(case, config=config)


def quantized(model: Path, kind: str) -> Path:
    """A file of a type, by llama.cpp's quantizer."""
    import llama_cpp

    exact, path = model / "F32.gguf", model / f"{kind}.gguf"
    if not exact.exists():
        write_gguf(model, exact)
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    arguments = str(exact).encode(), str(path).encode(), ctypes.byref(params)
    if code := llama_cpp.llama_model_quantize(*arguments):
        raise SystemExit(f"llama_model_quantize returned {code}")
    return path


if __name__ == "__main__":
    main()
