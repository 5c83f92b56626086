"""Writes docs/supported.md: what edgewise supports, from the tables in the code.

    python -m tools.supported

A test holds the page to what this would write. Whatever a table gets is on the page the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from edgewise_compiler.foreign import FOREIGN
from edgewise_compiler.gguf.blocks import REMOVED, TYPES
from edgewise_compiler.gguf.byte_level import RULES
from edgewise_compiler.gguf.codes import HELD
from edgewise_compiler.gguf.container import VERSIONS
from edgewise_compiler.gguf.known import ARCHITECTURES, BESIDE, NEUTRAL
from edgewise_compiler.gguf.tokenizer import KINDS
from edgewise_compiler.kernels.cpu.isa import ELSEWHERE, MACHINES
from edgewise_compiler.layouts.table import LAYOUTS
from edgewise_compiler.mlc.config import KINDS as MLC_KINDS
from edgewise_compiler.mlc.config import QUANTIZATIONS
from edgewise_compiler.mlc.names import CACHES as MLC_CACHES
from edgewise_compiler.mlc.names import CONFIG as MLC_CONFIG
from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.models.elsewhere import BEYOND, EVERY_TRAIT
from edgewise_compiler.models.families import FAMILIES
from edgewise_compiler.models.text_part import PARTS
from edgewise_compiler.models.traits import PAGE
from edgewise_compiler.options import MAX_CONTEXT
from edgewise_compiler.packed.names import KEYS
from edgewise_compiler.packed.table import METHODS
from edgewise_compiler.quantize import (
    AS_FILE,
    DEFAULT_QUANT,
    PRESETS,
    SCHEMES,
    AnyScheme,
    Recipe,
    Scheme,
)
from edgewise_compiler.state import KV_KINDS
from edgewise_compiler.targets import table as compiled
from edgewise_compiler.targets.cpu.lower import ARITHMETICS
from edgewise_compiler.targets.cuda import variants as cuda
from edgewise_compiler.targets.webgpu.variants import (
    INT8_VARIANTS,
    VARIANTS,
    features_of,
    variants_for,
)
from edgewise_compiler.weights.safetensors import FLOATS, INDEX, SINGLE
from edgewise_runtime.devices.table import DEVICES
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.targets import TARGETS

PATH = Path(__file__).resolve().parents[1] / PAGE

_NONE = "–"
_SAMPLE = LinearSpec("w", ("w",), (256,), 256)
"""A matrix to count bits on: all groups and panels are whole."""


def page() -> str:
    """The text of the page."""
    sections = (
        *(_head, _models, _architectures, _folders, _packed, _mlc),
        *(_gguf, _quantizations, _targets),
    )
    return "\n".join(line for section in sections for line in section())


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Lines of a table, and an empty one."""
    titles = tuple(columns)
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for row in rows:
        yield f"| {' | '.join(cell or _NONE for cell in row)} |"
    yield ""


def _code(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _head() -> Iterator[str]:
    yield "# What is supported"
    yield ""
    yield (
        "`python -m tools.supported` writes this page from the tables in the code, and a test "
        "holds it to them: change the code, not the page. What is not here is refused before "
        "anything is compiled, by an error that names what is missing. How models get here: "
        "[models.md](models.md). What was run on which machine: [tried.md](tried.md)."
    )
    yield ""


def _models() -> Iterator[str]:
    yield "## Models"
    yield ""
    yield from _table(
        (
            "family",
            "`architectures` in config.json",
            "or `model_type`",
            "`general.architecture` in GGUF",
        ),
        (
            (
                family.name,
                _code(family.architectures),
                _code(family.model_types),
                _code(
                    name
                    for name, own in ARCHITECTURES.items()
                    if not {own.model, *own.too}.isdisjoint(family.architectures)
                ),
            )
            for family in FAMILIES
        ),
    )
    seeing = ", ".join(f"`{name}` (as {_code(kinds.values())})" for name, kinds in PARTS.items())
    yield f"Of models of text and images the text is read: {seeing}."
    yield ""
    widths = ", ".join(f"{name} of {step}" for name, step in decoder.MULTIPLES.items())
    yield (
        f"Widths are multiples: {widths}. Heads are padded with zeros, in weights and in pages, to "
        f"the next multiple of {decoder.HEAD_STEP} of which all query heads make one of "
        f"{decoder.HEADS_STEP}: a head of 100 takes {decoder.padded_head_dim(32, 100)}. "
        f"At most: {decoder.MAX_HEAD_DIM} elements a head, "
        f"{decoder.MAX_LAYERS:,} layers, {decoder.MAX_VOCAB:,} tokens in a vocabulary, "
        f"{decoder.MAX_EOS} of them that end a text, {MAX_CONTEXT:,} tokens of context "
        f"({compiled.DEFAULT_CONTEXT:,} unless `--context` says more), {compiled.MAX_BATCH} "
        "sequences decoded together. How a family is added: [add-a-model.md](add-a-model.md)."
    )
    yield ""
    yield "What a model may ask for beyond that is refused, by these keys:"
    yield ""
    yield from _table(
        ("refused", "there is", "in config.json", "in GGUF, after the architecture"),
        ((t.name, t.have, _code(t.keys), _code(t.gguf)) for t in EVERY_TRAIT),
    )


def _architectures() -> Iterator[str]:
    yield "## Other architectures"
    yield ""
    yield (
        "All others are refused by their names, with what of the table above they ask for. Of "
        "these it is known what they need besides, which their config.json does not say:"
    )
    yield ""
    yield from _table(
        ("architecture", "needs"), ((_code(e.names), "; ".join(e.needs)) for e in BEYOND)
    )


def _folders() -> Iterator[str]:
    yield "## Checkpoint folders"
    yield ""
    yield (
        f"`config.json`, `tokenizer.json`, and `{SINGLE}` or shards with `{INDEX}` whose matrices "
        f"are {', '.join(FLOATS)}. `generation_config.json`, `tokenizer_config.json`, "
        "`special_tokens_map.json` and `chat_template.jinja` are read where they are there. No "
        "program in a checkpoint is run."
    )
    yield ""
    yield "What is found instead is called by its name:"
    yield ""
    yield from _table(("files", "this is"), ((_code(kind.files), kind.what) for kind in FOREIGN))


def _packed() -> Iterator[str]:
    yield "## Quantized folders"
    yield ""
    yield (
        f"Checkpoint folders whose config.json has a {' or a '.join(_code([k]) for k in KEYS)} "
        "that names one of these. Groups are of a multiple of "
        f"{GROUP} columns, or of all of a row. What holds them in a bundle (`--quant {AS_FILE}`, "
        "the default; [more about it](guide.md#quantized-folders)):"
    )
    yield ""
    yield from _table(
        ("`quant_method`", "read", "scheme", "beside parts that need more"),
        (
            (f"`{method.name}`", what, f"`{schemes[0]}`", _code(schemes[1:]))
            for method in METHODS.values()
            for what, schemes in method.reads
        ),
    )
    yield "Refused by name:"
    yield ""
    for method in METHODS.values():
        yield f"- {method.title}: {'; '.join(method.refuses)}."
    yield ""
    yield (
        "Which matrices are quantized is seen from the tensors that are there; the others are "
        "floats, as always."
    )
    yield ""


def _mlc() -> Iterator[str]:
    yield "## Folders of MLC LLM and WebLLM"
    yield ""
    yield (
        f"`{MLC_CONFIG}`, `{MLC_CACHES[0]}` (or `{MLC_CACHES[1]}`, as it was called), the shards "
        "that it lists, and `tokenizer.json`, without a config.json. `quantization` is one of "
        f"{_code(QUANTIZATIONS)}: four bits become `q4`, codes and scales as they are. "
        f"`model_type`: {_code(MLC_KINDS)}. A `conv_template` becomes a chat template where the "
        "tokenizer has none ([more about it](guide.md#folders-of-mlc-llm-and-webllm))."
    )
    yield ""


def _gguf() -> Iterator[str]:
    yield "## GGUF files"
    yield ""
    yield (
        f"Versions {' and '.join(map(str, VERSIONS))}, little-endian, whole or split. What holds "
        f"each type of tensor in a bundle (`--quant {AS_FILE}`, the default where a file is "
        "quantized; [more about it](guide.md#gguf-files)):"
    )
    yield ""
    yield from _table(("type", "scheme", ""), _types())
    refused = ", ".join(kind.name for kind in TYPES.values() if kind.decode is None)
    yield f"Refused: {refused}, and what ggml has removed ({', '.join(REMOVED.values())})."
    yield ""
    yield (
        f"Tokenizers (`tokenizer.ggml.model`): {_code(KINDS)}. Of `gpt2`, ways to cut a text "
        f"(`tokenizer.ggml.pre`): {_code(RULES)}."
    )
    yield ""
    beside = "; ".join(f"`{kind}`, {what}" for kind, what in BESIDE.items())
    yield f"What is no model by its `general.type`: {beside}."
    yield ""
    yield "Keys that change what is computed must have these values, or be absent:"
    yield ""
    yield from _table(
        ("key", "value"), ((f"`{key}`", " or ".join(map(str, v))) for key, v in NEUTRAL.items())
    )


def _types() -> Iterator[tuple[str, str, str]]:
    for kind in TYPES.values():
        if kind.decode is None:
            continue
        held = HELD.get(kind.name)
        if held is None:
            yield kind.name, "", "floats, which `--quant` says how to store"
        else:
            scheme, unpack = next(iter(held.items()))
            yield kind.name, f"`{scheme}`", "codes kept" if unpack else "rounded again"


def _quantizations() -> Iterator[str]:
    yield "## Quantizations"
    yield ""
    yield (
        f"What `--quant` takes, beside `{AS_FILE}`; `{DEFAULT_QUANT}` is the default. "
        "[quantization.md](quantization.md) helps to choose."
    )
    yield ""
    yield from _table(
        ("`--quant`", "bits a weight", "rules", "programs for the CPU", "programs for WebGPU"),
        (
            (
                f"`{recipe.name}`",
                "" if recipe.rules else _bits(recipe.default),
                _rules(recipe),
                f"`cpu-{ARITHMETICS[recipe.default.arithmetic].name}-…`",
                _webgpu(recipe.default),
            )
            for recipe in PRESETS.values()
        ),
    )
    yield (
        f"A recipe of your own gives each matrix one of {_code(SCHEMES)} "
        f"([guide.md](guide.md#recipes)). What KV pages hold (`--kv`): {_code(KV_KINDS)}."
    )
    yield ""


def _rules(recipe: Recipe) -> str:
    rules = (f"{_in_words(rule.scheme)} for {_code(rule.tensors)}" for rule in recipe.rules)
    return "; ".join((*rules, f"`{recipe.default.name}` for others")) if recipe.rules else ""


def _in_words(scheme: AnyScheme) -> str:
    if isinstance(scheme, Scheme):
        return f"`{scheme.name}`"
    return f"`{scheme.first.name}` (rows from {scheme.rows:,} on: `{scheme.rest.name}`)"


def _bits(scheme: Scheme) -> str:
    """What a linear takes on the CPU, scales included."""
    tensors = LAYOUTS["cpu"].tensors(scheme, _SAMPLE)
    return f"{sum(tensor.bytes for tensor in tensors.values()) * 8 / _SAMPLE.weights:g}"


def _webgpu(scheme: Scheme) -> str:
    made = {variant.name for variant in variants_for(scheme.name)}
    lacking = _code(v.name for v in (*VARIANTS, *INT8_VARIANTS) if v.name not in made)
    return f"all but {lacking}" if lacking else "all"


def _targets() -> Iterator[str]:
    yield "## Targets and devices"
    yield ""
    yield from _table(("target", "programs are", "compiled", "run by"), map(_target, TARGETS))
    yield "Programs for the CPU (`--cpu`), and what a processor must have:"
    yield ""
    isas = {(isa.arch, isa.name): isa for machine in MACHINES.values() for isa in machine}
    yield from _table(
        ("processor", "program", "needs"),
        ((arch, f"`{name}`", _code(isa.features)) for (arch, name), isa in isas.items()),
    )
    yield "Those that can be compiled for other machines than the one that compiles:"
    yield ""
    yield from _table(
        ("`--cpu`", "system", "programs"),
        (
            (f"`{name}`", elsewhere[0].system, _code(isa.label for isa in elsewhere))
            for name, elsewhere in ELSEWHERE.items()
        ),
    )
    yield "Programs for WebGPU, the best first, and which features an adapter must have:"
    yield ""
    yield from _table(
        ("program", "needs"),
        ((f"`{v.name}`", _code(features_of(v))) for v in (*VARIANTS, *INT8_VARIANTS)),
    )
    yield "Programs for CUDA, the same way. Not run on a GPU yet, on an emulated driver only:"
    yield ""
    yield from _table(
        ("program", "needs"),
        (
            (f"`{v.name}`", _code(cuda.features_of(v)))
            for v in (*cuda.VARIANTS, *cuda.INT8_VARIANTS)
        ),
    )


def _target(name: str) -> tuple[str, ...]:
    devices = [f"`{kind.name}`" for kind in DEVICES.values() if kind.target == name]
    tab = ["browsers"] if name == "webgpu" else []
    made = "yes" if name in compiled.TARGETS else "not yet"
    return f"`{name}`", TARGETS[name].about, made, ", ".join(devices + tab)


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
