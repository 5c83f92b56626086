"""Reading ``bundle.json`` from JSON that nobody vouches for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.facts import check_facts
from edgewise_runtime.format.manifest import (
    QUANTS,
    STATE_KINDS,
    TENSOR_ALIGNMENT,
    BundleManifest,
    Entry,
    FileEntry,
    ModelInfo,
    Needs,
    Program,
    StateGroup,
    TensorEntry,
)
from edgewise_runtime.format.reading import HEX_SHA256, ID, LIMIT, NAME, Fields, shorten
from edgewise_runtime.format.seal import MANIFEST, check_version

MAX_FILES, MAX_TENSORS, MAX_PROGRAMS, MAX_PLANS, MAX_LAYERS = 65536, 65536, 256, 256, 4096
MAX_SHADERS, MAX_CHUNKS, MAX_GROUPS = 4096, 65536, 64
STATE_DTYPES = ("float32", "float16", "int8")

_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
PATH = re.compile(rf"(?:{_PART}/)*{_PART}")
"""Relative paths with forward slashes whose parts begin with a letter, digit or underscore: never
absolute, never ``..``, no backslash, drive letter, NUL or hidden file."""


def read_manifest(value: object) -> BundleManifest:
    """`BundleManifest.from_json`.

    Raises:
        BundleError: whatever is wrong with it; nothing else.
    """
    fields = check_version(value)
    files = {
        path: _read_file(Fields(item, f"bundle.json, file {shorten(path)}", BundleError))
        for path, item in fields.table("files", most=MAX_FILES, pattern=None).items()
        if _plain(fields, path)
    }
    model = _read_model(Fields(fields.get("model"), "bundle.json, model", BundleError))
    manifest = BundleManifest(
        name=fields.text("name", ID),
        model=model,
        weights_id=fields.text("weights_id", HEX_SHA256),
        created_by=_read_created_by(fields),
        state_groups=tuple(
            _read_group(Fields(item, f"bundle.json, state group {i}", BundleError), model)
            for i, item in enumerate(fields.items("state_groups", most=MAX_GROUPS))
        ),
        layouts={
            name: _read_layout(Fields(item, f"bundle.json, layout {name!r}", BundleError), files)
            for name, item in fields.table("layouts", most=16, pattern=ID).items()
        },
        programs=tuple(
            _read_program(Fields(item, f"bundle.json, program {i}", BundleError))
            for i, item in enumerate(fields.items("programs", most=MAX_PROGRAMS))
        ),
        files=files,
    )
    fields.done()
    _check_programs(fields, manifest)
    check_facts(manifest)
    return manifest


def _plain(fields: Fields, path: str) -> bool:
    """True for a path that cannot leave the bundle; anything else is refused."""
    if len(path) > 512 or not PATH.fullmatch(path) or path == MANIFEST:
        raise fields.fail("path", f"{shorten(path)} is no plain relative path")
    return True


def _read_path(fields: Fields, key: str) -> str:
    path = fields.text(key, most=512)
    _plain(fields, path)
    return path


def _read_file(fields: Fields) -> FileEntry:
    size, sha256 = fields.integer("bytes", 0, LIMIT - 1), fields.text("sha256", HEX_SHA256)
    listed = fields.items("chunks", most=MAX_CHUNKS) if fields.has("chunks") else []
    wanted = FileEntry.chunk_count(size)
    if len(listed) != wanted or (not wanted and fields.has("chunks")):
        raise fields.fail("chunks", f"{len(listed)} chunks for {size} bytes, not {wanted}")
    for chunk in listed:
        if not isinstance(chunk, str) or not HEX_SHA256.fullmatch(chunk):
            raise fields.fail("chunks", f"{shorten(chunk)} is no sha256")
    fields.done()
    return FileEntry(size, sha256, tuple(listed))


def _read_created_by(fields: Fields) -> dict[str, str]:
    part = Fields(fields.get("created_by"), "bundle.json, created_by", BundleError)
    return {key: part.text(key) for key in fields.table("created_by", most=16)}


def _read_model(fields: Fields) -> ModelInfo:
    vocab = fields.integer("vocab", 1, 2**24)
    token = vocab - 1
    eos = fields.integers("eos", 0, token, most=16)
    model = ModelInfo(
        family=fields.text("family", ID),
        hidden=fields.integer("hidden", 1, 2**20),
        layers=fields.integer("layers", 1, MAX_LAYERS),
        heads=fields.integer("heads", 1, 2**12),
        kv_heads=fields.integer("kv_heads", 1, 2**12),
        head_dim=fields.integer("head_dim", 1, 2**12),
        intermediate=fields.integer("intermediate", 1, 2**22),
        vocab=vocab,
        context=fields.integer("context", 1, 2**22),
        max_batch=fields.integer("max_batch", 1, 2**12),
        prefill_chunk=fields.integer("prefill_chunk", 1, 2**16),
        bos=fields.nullable("bos", lambda: fields.integer("bos", 0, token)),
        eos=eos,
        quant=fields.choice("quant", QUANTS),
        recipe=fields.text("recipe", ID) if fields.has("recipe") else None,
    )
    fields.done()
    return model


def _read_group(fields: Fields, model: ModelInfo) -> StateGroup:
    layers = fields.integers("layers", 0, model.layers - 1, most=MAX_LAYERS)
    group = StateGroup(
        kind=fields.choice("kind", STATE_KINDS),
        layers=layers,
        window=fields.nullable("window", lambda: fields.integer("window", 1, 2**22)),
        page_tokens=fields.integer("page_tokens", 1, 2**12),
        kv_heads=fields.integer("kv_heads", 1, 2**12),
        head_dim=fields.integer("head_dim", 1, 2**12),
        buffers=fields.names("buffers", most=MAX_LAYERS),
        scales=fields.names("scales", most=MAX_LAYERS) if fields.has("scales") else (),
    )
    if fields.has("scales") and len(group.scales) != len(layers):
        raise fields.fail("state", f"{len(group.scales)} scales for layers {shorten(layers)}")
    if len(group.buffers) != len(group.layers) or len(set(layers)) != len(layers):
        raise fields.fail("state", f"{len(group.buffers)} buffers for layers {shorten(layers)}")
    fields.done()
    return group


def _read_layout(fields: Fields, files: Mapping[str, FileEntry]) -> dict[str, TensorEntry]:
    tensors = {
        name: _read_tensor(Fields(item, f"{fields.where}, tensor {name!r}", BundleError), files)
        for name, item in fields.table("tensors", most=MAX_TENSORS).items()
    }
    fields.done()
    return tensors


def _read_tensor(fields: Fields, files: Mapping[str, FileEntry]) -> TensorEntry:
    shape = fields.items("shape", most=8)
    for dim in shape:
        if not isinstance(dim, int) or isinstance(dim, bool) or not 1 <= dim < LIMIT:
            raise fields.fail("range", f"'shape' holds {shorten(dim)}")
    entry = TensorEntry(
        file=_read_path(fields, "file"),
        dtype=fields.choice("dtype", tuple(DTYPES)),
        shape=tuple(shape),
        offset=fields.integer("offset", 0, LIMIT - 1),
        bytes=fields.integer("bytes", 1, LIMIT - 1),
    )
    fields.done()
    if entry.file not in files:
        raise fields.fail("unknown_name", f"'files' does not list {entry.file!r}")
    if entry.offset % TENSOR_ALIGNMENT:
        message = f"offset {entry.offset} is no multiple of {TENSOR_ALIGNMENT}"
        raise fields.fail("offset", message)
    if entry.offset + entry.bytes > files[entry.file].bytes:
        end = entry.offset + entry.bytes
        message = f"it ends at byte {end} of {entry.file!r}, which has {files[entry.file].bytes}"
        raise fields.fail("extent", message)
    if math.prod(entry.shape) * DTYPES[entry.dtype] != entry.bytes:
        message = f"{entry.dtype} {list(entry.shape)} does not take {entry.bytes} bytes"
        raise fields.fail("extent", message)
    return entry


def _read_needs(fields: Fields) -> Needs:
    needs = Needs(
        arch=fields.nullable("arch", lambda: fields.text("arch", ID)),
        features=fields.names("features", most=64, pattern=ID),
    )
    fields.done()
    return needs


def _read_program(fields: Fields) -> Program:
    program_id = fields.text("id", ID)
    fields.where = f"bundle.json, program {program_id!r}"
    paths = Fields(fields.get("plans"), f"{fields.where}, plans", BundleError)
    shaders = Fields(fields.get("shaders"), f"{fields.where}, shaders", BundleError)
    program = Program(
        id=program_id,
        target=fields.text("target", ID),
        arithmetic=fields.text("arithmetic", ID),
        layout=fields.text("layout", ID),
        needs=_read_needs(Fields(fields.get("needs"), f"{fields.where}, needs", BundleError)),
        library=fields.nullable("library", lambda: _read_path(fields, "library")),
        plans={key: _read_path(paths, key) for key in fields.table("plans", most=MAX_PLANS)},
        entries={
            key: tuple(
                _read_entry(Fields(item, f"{fields.where}, entry {key!r}", BundleError))
                for item in _list(fields, key, items)
            )
            for key, items in fields.table("entries", most=64).items()
        },
        state_dtype=fields.choice("state_dtype", STATE_DTYPES),
        page_bytes=fields.integers("page_bytes", 1, LIMIT - 1, most=MAX_GROUPS),
        decode_agrees=fields.flag("decode_agrees"),
        shaders={
            key: _read_path(shaders, key) for key in fields.table("shaders", most=MAX_SHADERS)
        },
        signature=fields.text("signature", HEX_SHA256) if fields.has("signature") else None,
    )
    fields.done()
    return program


def _list(fields: Fields, key: str, value: object) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PLANS:
        raise fields.fail("type", f"the entries of {key!r} must be a list of plans")
    return value


def _read_entry(fields: Fields) -> Entry:
    when: dict[str, tuple[int, int]] = {}
    for name, item in fields.table("when", most=16).items():
        if not isinstance(item, list) or len(item) != 2:
            raise fields.fail("type", f"the range of {name!r} must be [low, high]")
        low, high = item
        for bound in item:
            if not isinstance(bound, int) or isinstance(bound, bool) or not 0 <= bound < LIMIT:
                raise fields.fail("range", f"the range of {name!r} holds {shorten(bound)}")
        if low > high:
            raise fields.fail("range", f"the range {low}..{high} of {name!r} is empty")
        when[name] = (low, high)
    entry = Entry(when, fields.text("plan", NAME))
    fields.done()
    return entry


def _check_programs(fields: Fields, manifest: BundleManifest) -> None:
    ids: set[str] = set()
    for program in manifest.programs:
        where = f"program {program.id!r}"
        if program.id in ids:
            raise fields.fail("duplicate", f"two programs are called {program.id!r}")
        ids.add(program.id)
        if len(program.page_bytes) != len(manifest.state_groups):
            sizes = f"{len(program.page_bytes)} sizes of pages"
            message = f"{where}: {sizes} for {len(manifest.state_groups)} state groups"
            raise fields.fail("state", message)
        if program.layout not in manifest.layouts:
            message = f"{where}: no layout is called {program.layout!r}"
            raise fields.fail("unknown_name", message)
        for path in program.files:
            if path not in manifest.files:
                raise fields.fail("unknown_name", f"{where}: 'files' does not list {path!r}")
        for operation, entries in program.entries.items():
            for entry in entries:
                if entry.plan not in program.plans:
                    message = f"{where}, entry {operation!r}: no plan is called {entry.plan!r}"
                    raise fields.fail("unknown_name", message)
