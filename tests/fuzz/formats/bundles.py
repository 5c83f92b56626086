"""Bundles: bundle.json, plans, parameters and proof, whole but for what was changed on purpose."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from edgewise.cli.main import main
from edgewise_runtime.devices import common
from edgewise_runtime.devices.loading import check_memory, read_code
from edgewise_runtime.devices.paging import paging
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.files import sha256_bytes
from edgewise_runtime.format.bundle import Bundle, BundleManifest
from edgewise_runtime.format.proof import PROOF, read_proof
from edgewise_runtime.format.seal import seal, unseal
from edgewise_runtime.format.state import PAGES, paged_state
from edgewise_runtime.trust import verify_program
from tests.format.make_goldens import GOLDENS, PROGRAM
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.mutate import raw, values
from tests.runtime import sample

MANIFEST = "bundle.json"
ENOUGH = 1 << 62

Json = dict[str, Any]


def seeds() -> Sequence[Files]:
    """A tiny bundle for the CPU, and one for GPUs with the plans of a compiled checkpoint."""
    with TemporaryDirectory() as place:
        sample.write_bundle(Path(place) / "tiny")
        tiny = read_files(Path(place) / "tiny")
    # Reading the second one takes ten times as long.
    return [tiny, tiny, tiny, _golden()]


def _golden() -> Files:
    manifest = unseal((GOLDENS / MANIFEST).read_bytes())
    manifest["programs"] = [item for item in manifest["programs"] if item["id"] == PROGRAM]
    (program,) = manifest["programs"]
    manifest["layouts"] = {program["layout"]: manifest["layouts"][program["layout"]]}
    tensors = manifest["layouts"][program["layout"]]["tensors"].values()
    named = {*program["plans"].values(), *program["shaders"].values()}
    named |= {tensor["file"] for tensor in tensors}
    files = {
        name: (GOLDENS / name).read_bytes()
        if (GOLDENS / name).exists()
        else bytes(manifest["files"][name]["bytes"])
        for name in named
    }
    vocab = manifest["model"]["vocab"]
    proof = {"tokens": [1, 2], "ids": [0, 5, vocab - 1], "logits": [[1, -2, 3], [4, 5, 60]]}
    return sealed(manifest, files | {PROOF: json.dumps(proof).encode()})


def sealed(manifest: Any, files: Files) -> Files:
    """A bundle of these files, whose bundle.json lists them as they are."""
    listed = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
        if name != MANIFEST
    }
    return {**files, MANIFEST: seal({**manifest, "files": listed})}


def _mutate_manifest(rng: Random, files: Files) -> Files:
    manifest = values.changed(rng, unseal(files[MANIFEST]), list(files))
    text = values.written(rng, manifest).removeprefix(b"{")
    return {**files, MANIFEST: b'{"digest":"%s",' % sha256_bytes(text).encode() + text}


def _mutate_json(kind: str) -> Callable[[Random, Files], Files]:
    """Changes one of the files with this in their names, and lists it as it then is."""

    def mutate(rng: Random, files: Files) -> Files:
        manifest = unseal(files[MANIFEST])
        name = rng.choice(sorted(name for name in files if kind in name))
        value = values.changed(rng, json.loads(files[name]), ["pages", "n", "b", "x", "w", "kv.0"])
        return sealed(manifest, {**files, name: values.written(rng, value)})

    return mutate


def _mutate_params(rng: Random, files: Files) -> Files:
    """Damages bundle.json, or a file that it has the sha256 of."""
    name = MANIFEST if rng.random() < 0.3 else rng.choice(sorted(files))
    return {**files, name: raw.changed(rng, files[name])}


def _use_manifest(folder: Path, files: Files) -> None:
    bundle = Bundle.open(folder)
    if BundleManifest.from_json(bundle.manifest.to_json()) != bundle.manifest:
        raise WrongAnswerError("the manifest does not read back as written")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(["inspect", str(folder)])
    use(folder, files)


def use(folder: Path, files: Files) -> None:
    """What every command does before a device is asked."""
    bundle = Bundle.open(folder)
    group = paged_state(bundle.manifest)
    for program in bundle.manifest.programs:
        plans = bundle.plans(program.id)
        load = {s.name: s.min for plan in plans.values() for s in plan.symbols if s.kind == "load"}
        sizes = common.buffer_sizes(plans, load)
        check_memory(plans, sizes, ENOUGH)
        paging(group, program.state_dtype, load[PAGES])
        bundle.verify_params(program.layout)
        read_code(bundle, program, plans)
        with suppress(EdgewiseError):
            verify_program(bundle.manifest, program)


def _use_damaged(folder: Path, files: Files) -> None:
    bundle = Bundle.open(folder)
    bundle.check()
    if not any(_is_whole(files, seed) for seed in _all_seeds()):
        raise WrongAnswerError("a bundle of which a part is another one than was written")


def _is_whole(files: Files, seed: Files) -> bool:
    return files.keys() == seed.keys() and all(files[name] == seed[name] for name in seed)


@cache
def _all_seeds() -> Sequence[Files]:
    return seeds()


def _use_proof(folder: Path, files: Files) -> None:
    bundle = Bundle.open(folder, verify=False)
    proof = read_proof(bundle)
    if proof is not None:
        logits = [0.5] * bundle.model.vocab
        for position in range(len(proof.tokens)):
            proof.distance(position, logits)


BUNDLE = Format(seeds, _mutate_manifest, _use_manifest)
PLAN = Format(seeds, _mutate_json("/plans/"), use)
PARAMS = Format(seeds, _mutate_params, _use_damaged)
PROOF_FILE = Format(lambda: seeds()[-1:], _mutate_json(PROOF), _use_proof)
