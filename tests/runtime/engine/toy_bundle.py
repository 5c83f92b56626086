"""The bundle of the toy program: its manifest, its plans and its tokenizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from edgewise_runtime.format.abi import PAGE_TOKENS, RING, TABLE_HEADER, shared_buffers
from edgewise_runtime.format.bundle import (
    Bundle,
    BundleManifest,
    Entry,
    FileEntry,
    ModelInfo,
    Needs,
    Program,
    StateGroup,
)
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.plan import Buffer, Plan, Symbol
from edgewise_runtime.format.state import pages_for
from edgewise_runtime.text import Tokenizer
from tests.runtime.engine.toy_model import EOS, VOCAB, WHOLE, Windows, text_of

MAX_PAGES = 1 << 16
FEW = 4
"""Rows up to which another plan prefills."""


@dataclass(frozen=True)
class Bounds:
    """How large a toy program is.

    Attributes:
        pages: pages of KV memory.
        rows: token rows of a step.
        batch: sequences of a step.
        context: tokens of a sequence.
        agrees: whether decode writes what prefill would.
        eos: end tokens.
        windows: of each state group.
    """

    pages: int = 40
    rows: int = 32
    batch: int = 4
    context: int = 256
    agrees: bool = True
    eos: tuple[int, ...] = EOS
    windows: Windows = WHOLE

    @property
    def columns(self) -> int:
        """Columns of ``table``."""
        return TABLE_HEADER + pages_for(self.context, PAGE_TOKENS)


@cache
def tokenizer() -> Tokenizer:
    """A tokenizer whose tokens are one character each."""
    backend = Backend(models.WordLevel({text_of([token]): token for token in range(VOCAB)}))
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend)


@cache
def toy_bundle(bounds: Bounds) -> Bundle:
    """The bundle of a program of these bounds; there are no files."""
    model = ModelInfo(
        family="toy",
        hidden=1,
        layers=len(bounds.windows),
        heads=1,
        kv_heads=1,
        head_dim=1,
        intermediate=1,
        vocab=VOCAB,
        context=bounds.context,
        max_batch=bounds.batch,
        prefill_chunk=bounds.rows,
        bos=None,
        eos=bounds.eos,
        quant="q4",
    )
    groups = tuple(
        StateGroup("paged", (layer,), window, PAGE_TOKENS, 1, 1, ("kv.0",))
        for layer, window in enumerate(bounds.windows)
    )
    program = toy_program(bounds)
    manifest = BundleManifest(
        name="toy",
        model=model,
        weights_id="0" * 64,
        created_by={},
        state_groups=groups,
        layouts={"cpu": {}},
        programs=(program,),
        files=dict.fromkeys(
            ("programs/toy/kernels.so", *program.plans.values()),
            FileEntry(1, program.id.encode().hex()),
        ),
    )
    return Bundle(Path("toy"), manifest)


def toy_program(bounds: Bounds) -> Program:
    """What its bundle says about the program."""
    rows, batch = bounds.rows, bounds.batch
    entries = {
        "embed": (Entry({"n": (1, rows)}, "embed"),),
        "prefill": (
            Entry({"n": (1, min(FEW, rows))}, "prefill_few"),
            Entry({"n": (1, rows)}, "prefill"),
        ),
        "logits": (Entry({"r": (1, batch)}, "logits"),),
        "sample": (Entry({"b": (1, batch)}, "sample"),),
        "decode": (Entry({"b": (1, 1)}, "decode_one"), Entry({"b": (1, batch)}, "decode")),
        "forward": (Entry({"b": (1, batch)}, "forward"),),
        "logprobs": (Entry({"b": (1, batch)}, "logprobs"),),
    }
    names = {entry.plan for listed in entries.values() for entry in listed}
    return Program(
        id="toy" if bounds.agrees else "toy-f32",
        target="cpu",
        arithmetic="w4a8" if bounds.agrees else "f32",
        layout="cpu",
        needs=Needs(),
        library="programs/toy/kernels.so",
        plans={name: f"programs/toy/plans/{name}.json" for name in sorted(names)},
        entries=entries,
        state_dtype="uint32",
        page_bytes=(2 * PAGE_TOKENS * 4,) * len(bounds.windows),
        decode_agrees=bounds.agrees,
    )


@cache
def toy_plans(bounds: Bounds) -> dict[str, Plan]:
    """Its plans by name. They launch nothing: `toy.ToyProgram` knows what they do."""
    few = {
        "prefill_few": {"n": (1, min(FEW, bounds.rows))},
        "decode_one": {"n": (1, 1), "b": (1, 1), "r": (1, 1)},
    }
    everything = {"n": (1, bounds.rows), "b": (1, bounds.batch), "r": (1, bounds.batch)}
    symbols = {
        "embed": ("n",),
        "prefill_few": ("n", "b"),
        "prefill": ("n", "b"),
        "logits": ("r",),
        "sample": ("b",),
        "logprobs": ("b",),
        "decode_one": ("n", "b", "r"),
        "decode": ("n", "b", "r"),
        "forward": ("n", "b", "r"),
    }
    pages = Symbol("pages", "load", 1, MAX_PAGES)
    return {
        name: Plan(
            name=name,
            target="cpu",
            symbols=(
                pages,
                *(Symbol(s, "step", *(everything | few.get(name, {}))[s]) for s in used),
            ),
            buffers=_buffers(bounds),
            kernels={},
            steps=(),
            host="toy",
            max_burst=RING if name.startswith("decode") else 1,
        )
        for name, used in symbols.items()
    }


@cache
def _buffers(bounds: Bounds) -> tuple[Buffer, ...]:
    shared = shared_buffers(
        rows=bounds.rows,
        batch=bounds.batch,
        pages=bounds.columns - TABLE_HEADER,
        hidden=1,
        vocab=VOCAB,
        groups=len(bounds.windows),
    )
    # The state of a token is a hash of 64 bits.
    shared["x"] = ("output", "uint64", (bounds.rows, 1))
    return (
        *(
            Buffer(name, role, dtype, shape, math.prod(shape) * DTYPES[dtype])
            for name, (role, dtype, shape) in shared.items()
        ),
        Buffer(
            "kv.0",
            "state",
            "uint32",
            ("pages", 2, 1, PAGE_TOKENS),
            ("mul", "pages", 2 * PAGE_TOKENS * 4),
        ),
    )
