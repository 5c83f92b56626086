"""Which models of a hub are listed as lying on this disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants, hf_hub_download, snapshot_download

from edgewise.hub.names import HubModel
from edgewise.hub.pull import find, pull
from edgewise.hub.stored import home, stored
from tests.sdk.hub.repositories import FOLDER, NAME, READ, WEIGHTS, config, ggufs, mlc, sharded
from tests.sdk.hub.small_hub import SmallHub


def test_without_a_cache_there_are_none(hub: SmallHub) -> None:
    assert not Path(constants.HF_HUB_CACHE).exists()
    assert stored() == []


def test_whole_models_are_listed_by_the_names_that_find_them(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.add("tiny/sharded", sharded())
    hub.add("tiny/mlc", mlc())
    parts = [f"m-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)]
    hub.add("tiny/files", ggufs("m-Q4_K_M.gguf", "plain.gguf", *parts))
    wanted = [HubModel("tiny/files", what) for what in ("Q4_K_M", "Q8_0", "plain.gguf")]
    folders = [HubModel(name) for name in (NAME, "tiny/sharded", "tiny/mlc")]
    pulled = {model: pull(model) for model in (*folders, *wanted)}
    hub.requests.clear()
    assert {model.name: (model.path, model.size) for model in stored()} == {
        model: (found.path, found.size) for model, found in pulled.items()
    }
    assert {find(model.name) for model in stored()} == {f.path for f in pulled.values()}
    assert hub.requests == []


def test_what_another_program_fetched_is_listed_as_well(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    folder = snapshot_download(NAME)
    (model,) = stored()
    assert (str(model.name), model.path) == (f"hf:{NAME}", Path(folder))
    assert model.size == sum(map(len, READ.values()))


def test_what_is_not_whole_is_not_listed(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    for name in READ:
        if name != WEIGHTS:
            hf_hub_download(NAME, name)
    hub.add("tiny/files", ggufs(*(f"m-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2))))
    hf_hub_download("tiny/files", "m-Q8_0-00001-of-00002.gguf")
    assert stored() == []


def test_what_cannot_be_compiled_is_not_listed(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER | {"config.json": config(architectures=["BertForMaskedLM"])})
    snapshot_download(NAME)
    assert stored() == []


@pytest.mark.parametrize("ref", [b"", b"../../elsewhere", b"\xff" * 40, b"0" * 1000])
def test_a_cache_that_is_damaged_lists_nothing(hub: SmallHub, ref: bytes) -> None:
    hub.add(NAME, FOLDER)
    pull(HubModel(NAME))
    (home(NAME) / "refs" / "main").write_bytes(ref)
    for name in ("models--x--y", "models--a--b--c", "models----", "datasets--x--y"):
        (Path(constants.HF_HUB_CACHE) / name).mkdir()
    assert stored() == []
