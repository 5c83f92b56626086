"""``bundle.json`` as frozen dataclasses: what a bundle says about itself.

Reading (`BundleManifest.from_bytes`) checks the file's own digest first (`seal`), then everything
the manifest alone can tell (`manifest_reader`); what needs the files and plans beside it is checked
by `bundle.Bundle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.seal import VERSION, seal, unseal

QUANTS = (
    "f32",
    "f16",
    "q8",
    "q6",
    "q6_nl",
    "q5",
    "q5_nl",
    "q4",
    "q4_nl",
    "q4a",
    "q4k",
    "iq4_nl",
    "mxfp4",
)
STATE_KINDS = ("paged", "recurrent")

CHUNK_BYTES = 32 << 20
"""Bytes of a piece of a larger file that has a SHA-256 of its own."""

TENSOR_ALIGNMENT = 64
"""Bytes that divide a tensor's offset in its file, so that a mapped file is used in place."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the runtime needs to know about the model. `context`, `max_batch` and `prefill_chunk`
    are the static bounds C, B and N of every plan; `eos` are the ids that end a reply; `quant` is
    the scheme of weights, and where each has its own, by a `recipe` of that name, what the recipe
    has for those it does not mention."""

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    max_batch: int
    prefill_chunk: int
    bos: int | None
    eos: tuple[int, ...]
    quant: str
    recipe: str | None = None

    @property
    def stored(self) -> str:
        """How weights are stored, in a word: the recipe, or the scheme of all of them."""
        return self.recipe or self.quant

    def to_json(self) -> dict[str, Any]:
        data = asdict(self) | {"eos": list(self.eos)}
        recipe = data.pop("recipe")
        return data if recipe is None else data | {"recipe": recipe}


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Layers that keep their state alike: `buffers` names one state buffer per layer, `scales` one
    more that programs with int8 state have; empty where no program of the bundle does.

    `window` is the number of tokens attention looks back, None for all of them; `page_tokens` are
    the tokens of a page. Which groups can be run is said in `state`.
    """

    kind: str
    layers: tuple[int, ...]
    window: int | None
    page_tokens: int
    kv_heads: int
    head_dim: int
    buffers: tuple[str, ...]
    scales: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data = asdict(self) | {"layers": list(self.layers), "buffers": list(self.buffers)}
        scales = data.pop("scales")
        return data | {"scales": list(scales)} if scales else data


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies: `offset` counts bytes from the start of the file.

    In a bundle `file` is a path inside it and `dtype` has NumPy's name; the compiler's readers put
    down the name of a checkpoint's file and the dtype as its format spells it.
    """

    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a machine must have to run a program; `arch` is None where any will do."""

    arch: str | None = None
    features: tuple[str, ...] = ()

    def missing(self, features: frozenset[str]) -> tuple[str, ...]:
        """What of it the given features (the machine's arch among them) lack."""
        wanted = self.features if self.arch is None else (self.arch, *self.features)
        return tuple(name for name in wanted if name not in features)

    def to_json(self) -> dict[str, Any]:
        return {"arch": self.arch, "features": list(self.features)}


@dataclass(frozen=True, slots=True)
class Entry:
    """The plan to call while every symbol in `when` is in its inclusive range."""

    when: Mapping[str, tuple[int, int]]
    plan: str

    def fits(self, values: Mapping[str, int]) -> bool:
        return all(
            name in values and low <= values[name] <= high
            for name, (low, high) in self.when.items()
        )

    def to_json(self) -> dict[str, Any]:
        return {"when": {k: list(v) for k, v in self.when.items()}, "plan": self.plan}


@dataclass(frozen=True, slots=True)
class Program:
    """The plans and kernels of one target and arithmetic.

    `library` and `plans` are paths in the bundle. `shaders` maps the kernels of a program without a
    library to their files; programs may share files. `signature` is made by `trust.sign_program`
    for programs of native targets. `state_dtype` is what the buffers of the state groups hold in
    this program, and `page_bytes`, for each group, the bytes of a page in all of them, scales
    included. `decode_agrees`: decode writes the bits into KV that prefill would, so that either may
    stand for both. `entries` lists, per operation, which plan serves which symbol values.
    """

    id: str
    target: str
    arithmetic: str
    layout: str
    needs: Needs
    library: str | None
    plans: Mapping[str, str]
    entries: Mapping[str, tuple[Entry, ...]]
    state_dtype: str
    page_bytes: tuple[int, ...]
    decode_agrees: bool
    shaders: Mapping[str, str] = field(default_factory=dict)
    signature: str | None = None

    @property
    def code(self) -> tuple[str, ...]:
        """Paths of the library and of the kernels' files, each once, sorted."""
        library = [] if self.library is None else [self.library]
        return tuple(sorted({*library, *self.shaders.values()}))

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of its code and of its plans, each once, sorted."""
        return tuple(sorted({*self.code, *self.plans.values()}))

    def plan_for(self, operation: str, values: Mapping[str, int]) -> str | None:
        """Name of the first plan of an operation that fits the symbol values, None without one."""
        fitting = (e.plan for e in self.entries.get(operation, ()) if e.fits(values))
        return next(fitting, None)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "id": self.id,
            "target": self.target,
            "arithmetic": self.arithmetic,
            "layout": self.layout,
            "needs": self.needs.to_json(),
            "library": self.library,
            "plans": dict(self.plans),
            "entries": {k: [entry.to_json() for entry in v] for k, v in self.entries.items()},
            "state_dtype": self.state_dtype,
            "page_bytes": list(self.page_bytes),
            "decode_agrees": self.decode_agrees,
            "shaders": dict(self.shaders),
        }
        return data if self.signature is None else data | {"signature": self.signature}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Size in bytes and SHA-256 of a file of the bundle.

    `chunks` are the SHA-256 of every `CHUNK_BYTES` of a file larger than that, in order: who
    fetches it in ranges can verify each. Empty for smaller files.
    """

    bytes: int
    sha256: str
    chunks: tuple[str, ...] = ()

    @staticmethod
    def chunk_count(size: int) -> int:
        """How many chunks a file of so many bytes lists."""
        return -(-size // CHUNK_BYTES) if size > CHUNK_BYTES else 0

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"bytes": self.bytes, "sha256": self.sha256}
        return data | {"chunks": list(self.chunks)} if self.chunks else data


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """All of ``bundle.json``. `layouts` maps layout name to tensor name to where it lies; `files`
    lists every file but ``bundle.json`` itself by its path."""

    name: str
    model: ModelInfo
    weights_id: str
    created_by: Mapping[str, str]
    state_groups: tuple[StateGroup, ...]
    layouts: Mapping[str, Mapping[str, TensorEntry]]
    programs: tuple[Program, ...]
    files: Mapping[str, FileEntry]
    version: int = field(default=VERSION)

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `from_json` of it gives an equal manifest back."""
        return {
            "version": self.version,
            "name": self.name,
            "model": self.model.to_json(),
            "weights_id": self.weights_id,
            "created_by": dict(self.created_by),
            "state_groups": [group.to_json() for group in self.state_groups],
            "layouts": {
                name: {"tensors": {key: entry.to_json() for key, entry in tensors.items()}}
                for name, tensors in self.layouts.items()
            },
            "programs": [program.to_json() for program in self.programs],
            "files": {path: entry.to_json() for path, entry in self.files.items()},
        }

    def to_bytes(self) -> bytes:
        """The contents of ``bundle.json``, with its digest; `from_bytes` reads them."""
        return seal(self.to_json())

    @staticmethod
    def from_bytes(data: bytes) -> BundleManifest:
        """Read ``bundle.json``, its digest first.

        Raises:
            BundleError: whatever is wrong with it; nothing else.
        """
        return BundleManifest.from_json(unseal(data))

    @staticmethod
    def from_json(value: object) -> BundleManifest:
        """Read a manifest from parsed JSON that nobody vouches for, its digest taken off.

        Raises:
            BundleError: whatever is wrong with it; nothing else.
        """
        # The reader builds these classes, so it can only be imported once they exist.
        from edgewise_runtime.format.manifest_reader import read_manifest

        return read_manifest(value)

    def program(self, program_id: str) -> Program:
        """The program with this id.

        Raises:
            BundleError: ``bundle.unknown_name`` naming those there are.
        """
        for program in self.programs:
            if program.id == program_id:
                return program
        known = ", ".join(program.id for program in self.programs)
        raise BundleError(
            f"Bundle {self.name!r} has no program {program_id!r}; it has {known}.",
            code="bundle.unknown_name",
        )
