"""How people name models at a hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.hub.names import HubModel, hub_model, is_hub_name, repo_of
from edgewise_runtime.errors import InputError


@pytest.mark.parametrize(
    ("typed", "repo", "wanted"),
    [
        ("hf:org/repo", "org/repo", ""),
        ("org/repo", "org/repo", ""),
        ("hf:HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", ""),
        ("hf:0-hero/a.b_c-1", "0-hero/a.b_c-1", ""),
        ("hf:org/repo:Q4_K_M", "org/repo", "Q4_K_M"),
        ("org/repo:sub/a model.gguf", "org/repo", "sub/a model.gguf"),
        (f"hf:{'o' * 96}/{'r' * 96}", f"{'o' * 96}/{'r' * 96}", ""),
    ],
)
def test_a_name_is_a_repository_and_perhaps_one_of_its_files(
    typed: str, repo: str, wanted: str
) -> None:
    assert hub_model(typed) == HubModel(repo, wanted)
    assert hub_model(str(hub_model(typed))) == HubModel(repo, wanted)


@pytest.mark.parametrize(
    "typed",
    [
        *("hf:", "hf:repo", "hf:org/", "hf:/repo", "hf:org/repo/more", "hf:org/../repo"),
        *("hf:org/re po", "hf:org/repo:", "hf:org/repo:\n", "hf:.org/repo", "hf:org/repo.git"),
        *("hf:org/a--b", "hf:org/a..b", "hf:org/-a", "hf://org/repo", "hf:örg/repo"),
        *(f"hf:org/{'r' * 97}", f"hf:org/repo:{'q' * 201}", "https://example.org/a/b"),
    ],
)
def test_other_names_are_refused_and_how_to_write_one_is_said(typed: str) -> None:
    with pytest.raises(InputError, match="names no model") as caught:
        hub_model(typed)
    assert caught.value.code == "input.model"
    assert "hf:ORG/REPO" in caught.value.remedy


def test_only_the_prefix_makes_it_a_name_of_the_hub() -> None:
    assert is_hub_name("hf:org/repo")
    assert not any(map(is_hub_name, ("org/repo", "dist/model", "./hf:org/repo")))


@pytest.mark.parametrize(
    ("folder", "repo"),
    [
        ("hub/models--org--repo/snapshots/0123", "org/repo"),
        ("hub/datasets--org--repo/snapshots/0123", ""),
        ("hub/models--org--repo/snapshots/0123/Q8_0/m.gguf", "org/repo"),
        ("hub/models--org--repo/blobs/0123", ""),
        ("models/my--model", ""),
    ],
)
def test_a_path_in_the_cache_knows_its_repository(folder: str, repo: str) -> None:
    assert repo_of(Path(folder)) == repo
