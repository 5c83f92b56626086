"""What a bundle ships of prompts: an index is taken whole or refused by name."""

from __future__ import annotations

import copy
import json

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.manifest import FileEntry
from edgewise_runtime.format.packs import (
    MAX_PAGES,
    index_from,
    is_page,
    page_path,
    parse_index,
    prompt_digest,
)
from tests.format.cases import Case, cases, what

KNOWN, WINDOWED = cases("pack-indices"), cases("pack-indices-windows")
PLACE, SIZES = KNOWN["place"], KNOWN["sizes"]


@pytest.mark.parametrize(
    ("known", "case"),
    [(known, case) for known in (KNOWN, WINDOWED) for case in known["cases"]],
    ids=lambda value: what(value) if "what" in value else "",
)
def test_an_index_is_taken_or_refused(known: Case, case: Case) -> None:
    place, sizes = known["place"], known["sizes"]
    if case["code"] is None:
        assert index_from(case["index"], place, sizes).to_json() == case["index"]
        return
    with pytest.raises(BundleError) as refused:
        index_from(case["index"], place, sizes)
    assert refused.value.code == case["code"]


def test_a_pack_has_the_pages_that_a_window_covers() -> None:
    index = index_from(WINDOWED["cases"][0]["index"], WINDOWED["place"], WINDOWED["sizes"])
    longer = index.packs[1]
    assert index.file_count(longer) == len(index.files_of(longer)) == 3 + 2 + 2
    assert {page_path(WINDOWED["place"], key) for key in index.files} == WINDOWED["sizes"].keys()


def test_more_pages_than_there_may_be_are_refused_before_any_is_named() -> None:
    """Of as many groups as there may be, so that each key is many files."""
    index = copy.deepcopy(WINDOWED["cases"][0]["index"])
    index["windows"] = [None, *[1 << 30] * 7]
    index["packs"] = [{**index["packs"][0], "keys": ["a1" * 32] * (MAX_PAGES // 8 + 1)}]
    with pytest.raises(BundleError, match=f"more than {MAX_PAGES} pages"):
        index_from(index, WINDOWED["place"], WINDOWED["sizes"])


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
