"""What a bundle ships of prompts: an index is taken whole or refused by name."""

from __future__ import annotations

import json

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.manifest import FileEntry
from edgewise_runtime.format.packs import index_from, is_page, parse_index, prompt_digest
from tests.format.cases import Case, cases, what

KNOWN = cases("pack-indices")
PLACE, SIZES = KNOWN["place"], KNOWN["sizes"]


@pytest.mark.parametrize("case", KNOWN["cases"], ids=what)
def test_an_index_is_taken_or_refused(case: Case) -> None:
    if case["code"] is None:
        assert index_from(case["index"], PLACE, SIZES).to_json() == case["index"]
        return
    with pytest.raises(BundleError) as refused:
        index_from(case["index"], PLACE, SIZES)
    assert refused.value.code == case["code"]


def test_it_is_json() -> None:
    files = {path: FileEntry(size, "0" * 64) for path, size in SIZES.items()}
    value = KNOWN["cases"][0]["index"]
    assert parse_index(json.dumps(value).encode(), PLACE, files).to_json() == value
    with pytest.raises(BundleError) as refused:
        parse_index(b"{", PLACE, files)
    assert refused.value.code == "bundle.json"


@pytest.mark.parametrize(
    "path",
    ["prefixes/a/b/{}.kv", "prefixes/{}.kv", "params/{}.kv", "prefixes/a/{}.safetensors"],
)
def test_only_pages_are_left_for_later(path: str) -> None:
    assert all(is_page(page) for page in SIZES)
    assert not is_page(path.format("a1" * 32))


def test_a_prompt_is_the_hash_of_its_ids() -> None:
    digest = "67abdd721024f0ff4e0b3f4c2fc13bc5bad42d0b7851d456d88d203d15aaa450"  # 01 00 00 00
    assert prompt_digest([1]) == prompt_digest((1,)) == digest
