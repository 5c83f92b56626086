"""Pages are known by the bytes that made them, not by what a bundle calls itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise_runtime.format.bundle import Bundle, FileEntry
from edgewise_runtime.format.manifest import BundleManifest
from edgewise_runtime.kv.keys import KeyChain, page_key, producer_of, root_key
from tests.format import make_goldens
from tests.runtime import sample

PARAMS = "params/cpu/00000.safetensors"
HOME = "programs/cpu-f32-portable"
OTHER = FileEntry(160, "cd" * 32)

Change = Callable[[BundleManifest], BundleManifest]


def file(path: str, entry: FileEntry = OTHER) -> Change:
    return lambda m: replace(m, files={**m.files, path: entry})


def tensor(**values: object) -> Change:
    def change(m: BundleManifest) -> BundleManifest:
        moved = replace(m.layouts["cpu"]["w"], **values)  # type: ignore[arg-type]
        return replace(m, layouts={**m.layouts, "cpu": {"w": moved}})

    return change


def group(m: BundleManifest) -> BundleManifest:
    return replace(m, state_groups=(replace(m.state_groups[0], page_tokens=8),))


def program(**values: object) -> Change:
    def change(m: BundleManifest) -> BundleManifest:
        return replace(m, programs=(replace(m.programs[0], **values),))  # type: ignore[arg-type]

    return change


WEIGHTS: dict[str, Change] = {
    "other weights": file(PARAMS),
    "other pieces": file(PARAMS, FileEntry(160, "ab" * 32, ("cd" * 32,))),
    "a tensor elsewhere": tensor(offset=128),
    "a tensor read otherwise": tensor(dtype="float16", shape=(16,)),
    "other pages": group,
    "another type of state": program(state_dtype="float16"),
}
CODE: dict[str, Change] = {
    "another library": file(f"{HOME}/kernels.so"),
    "another plan": file(f"{HOME}/plans/prefill.json"),
    "another entry": program(entries={}),
}
CLAIMS: dict[str, Change] = {
    "another id": lambda m: replace(m, weights_id="cd" * 32),
    "another name": lambda m: replace(m, name="other"),
    "another tokenizer": file("tokenizer.json"),
    "weights of a layout that is not read": lambda m: file("params/gpu")(
        replace(m, layouts={**m.layouts, "gpu": m.layouts["cpu"]})
    ),
}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    sample.write_bundle(tmp_path / "tiny")
    opened = Bundle.open(tmp_path / "tiny")
    known = replace(opened.manifest.files[PARAMS], sha256="ab" * 32)
    return Bundle(opened.path, file(PARAMS, known)(opened.manifest))


def keys(bundle: Bundle, change: Change = lambda m: m) -> tuple[bytes, str]:
    changed = Bundle(bundle.path, change(bundle.manifest))
    program = changed.manifest.programs[0]
    return root_key(changed, program), producer_of(changed, program)


@pytest.mark.parametrize("what", WEIGHTS)
def test_pages_are_not_those_of(bundle: Bundle, what: str) -> None:
    assert keys(bundle, WEIGHTS[what])[0] != keys(bundle)[0]


@pytest.mark.parametrize("what", CODE)
def test_pages_are_not_written_as_by(bundle: Bundle, what: str) -> None:
    (root, producer), (same, other) = keys(bundle), keys(bundle, CODE[what])
    assert root == same
    assert producer != other


@pytest.mark.parametrize("what", CLAIMS)
def test_pages_are_the_same_with(bundle: Bundle, what: str) -> None:
    assert keys(bundle, CLAIMS[what]) == keys(bundle)


def test_a_chain_computes_each_key_once() -> None:
    pages = [(1, 2), (3, 4), (5, 6)]
    chain = KeyChain(b"root")
    keys = [chain.key(nth, tokens) for nth, tokens in enumerate(pages)]
    assert keys[0] == page_key(b"root", pages[0])
    assert keys[1:] == [page_key(keys[nth], pages[nth + 1]) for nth in range(2)]
    assert [chain.before(nth) for nth in range(4)] == [b"root", *keys]
    # What a page holds is not looked at again.
    assert [chain.key(nth, ()) for nth in range(3)] == keys


def test_a_chain_goes_on_from_the_keys_that_are_known() -> None:
    first = page_key(b"root", (1, 2))
    chain = KeyChain(b"root", [first])
    assert chain.key(1, (3, 4)) == page_key(first, (3, 4))


def test_the_tab_is_given_the_keys_that_are_computed_here() -> None:
    assert json.loads((make_goldens.FOLDER / "page-keys.json").read_text()) == make_goldens.keys()
