"""Which model may draft for which: token ids must mean the same to both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.engine.speculate.draft import check_draft
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle, describe_files, write_manifest

Edit = Callable[[dict[str, Any]], None]


def edited(bundle: Bundle, out: Path, file: str, edit: Edit) -> Bundle:
    """A copy of a bundle with one JSON file changed, its manifest made anew."""
    shutil.copytree(bundle.path, out)
    content = json.loads((out / file).read_text())
    edit(content)
    (out / file).write_text(json.dumps(content))
    write_manifest(out, replace(bundle.manifest, files=describe_files(out)))
    return Bundle.open(out)


def swap(tokenizer: dict[str, Any]) -> None:
    vocab = tokenizer["model"]["vocab"]
    vocab["!"], vocab["?"] = vocab["?"], vocab["!"]


def reformat(tokenizer: dict[str, Any]) -> None:
    """The file differs, the ids do not."""
    tokenizer["truncation"] = {
        "direction": "Right",
        "max_length": 5,
        "strategy": "LongestFirst",
        "stride": 0,
    }


def another_template(config: dict[str, Any]) -> None:
    config["chat_template"] = "{{ messages }}"


def test_models_of_one_tokenizer_may(target: Bundle, smaller: Bundle) -> None:
    check_draft(smaller, target)


@pytest.mark.parametrize(
    ("file", "edit"),
    [("tokenizer.json", reformat), ("tokenizer_config.json", another_template)],
)
def test_files_that_differ_without_changing_ids_do_no_harm(
    target: Bundle, smaller: Bundle, tmp_path: Path, file: str, edit: Edit
) -> None:
    check_draft(edited(smaller, tmp_path / "draft", file, edit), target)


def test_an_id_that_means_another_token_is_named(
    target: Bundle, smaller: Bundle, tmp_path: Path
) -> None:
    draft = edited(smaller, tmp_path / "draft", "tokenizer.json", swap)
    with pytest.raises(InputError, match=r"token \d+ is '\?' and the target's '!'") as refused:
        check_draft(draft, target)
    assert refused.value.code == "input.draft"


def test_vocabularies_of_two_sizes_do_not_go_together(target: Bundle, smaller: Bundle) -> None:
    model = replace(smaller.model, vocab=333)
    larger = Bundle(smaller.path, replace(smaller.manifest, model=model))
    with pytest.raises(InputError, match="333 token ids and the target 320") as refused:
        check_draft(larger, target)
    assert refused.value.code == "input.draft"
