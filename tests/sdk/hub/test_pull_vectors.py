"""What a repository says of vectors is fetched with the model, by names that are of it."""

from __future__ import annotations

import json

import pytest

from edgewise.hub.names import HubModel
from edgewise.hub.pull import find, pull
from tests.sdk.hub.repositories import FOLDER, NAME, READ, VECTORS, WEIGHTS
from tests.sdk.hub.small_hub import SmallHub
from tests.sdk.hub.test_pull import contents, failure

MODEL = HubModel(NAME)


def test_what_says_how_vectors_are_made_is_fetched(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER | VECTORS | {"2_Dense/config.json": b"{}"})
    path = pull(MODEL).path
    assert contents(path) == READ | VECTORS
    hub.requests.clear()
    assert find(MODEL) == path
    assert hub.requests == []
    (path / "1_Pooling/config.json").resolve().unlink()
    assert contents(find(MODEL)) == READ | VECTORS


@pytest.mark.parametrize("path", ["../up", "a/b", "..", "", "\\x", "C:", 7, "x" * 500])
def test_folders_of_modules_that_are_none_are_not_asked_for(hub: SmallHub, path: object) -> None:
    modules = json.dumps([{"type": "x.Pooling", "path": path}]).encode()
    hub.add(NAME, FOLDER | {"modules.json": modules})
    if path == "x" * 500:
        assert "not in the repository" in failure().message
        return
    assert contents(pull(MODEL).path) == READ | {"modules.json": modules}


@pytest.mark.parametrize("modules", [b"{}", b"[7, null]", b"not JSON", b'[{"type": 1}]'])
def test_a_list_of_modules_that_is_none_is_left_to_the_compile(
    hub: SmallHub, modules: bytes
) -> None:
    hub.add(NAME, FOLDER | {"modules.json": modules})
    assert contents(pull(MODEL).path) == READ | {"modules.json": modules}


def test_a_pooling_that_is_not_there_or_not_small_is_refused(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER | {"modules.json": VECTORS["modules.json"]})
    assert "lists '1_Pooling/config.json', which is not in" in failure().message
    large = VECTORS | {"1_Pooling/config.json": b" " * (5 << 20)}
    hub.add(NAME, FOLDER | large)
    assert "1_Pooling/config.json of tiny/Llama-1M has 5242880 bytes" in failure().message
    assert hub.asked_for(WEIGHTS) == []
