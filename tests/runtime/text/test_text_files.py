"""Of a bundle only those texts are read that it lists, and as it lists them."""

from __future__ import annotations

import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise_runtime.errors import BundleError, CheckpointError, StorageError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import ChatTemplate, Tokenizer
from edgewise_runtime.text.files import TextFiles
from tests.runtime import sample

TOKENIZER = Path(__file__).parent / "goldens/one_digit/tokenizer.json"
SECRET = "someone else's words"

UNLISTED = {
    "chat_template.jinja": SECRET,
    "additional_chat_templates/default.jinja": SECRET,
    "tokenizer_config.json": '{"bos_token": "<forged>", "chat_template": "forged"}',
    "special_tokens_map.json": '{"bos_token": "<forged>"}',
    "generation_config.json": '{"temperature": 9}',
}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A bundle with a real tokenizer and without any other text."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    sample.write_files(folder)
    shutil.copyfile(TOKENIZER, folder / "tokenizer.json")
    sample.write_manifest(folder, sample.manifest() | {"files": sample.list_files(folder)})
    return Bundle.open(folder)


@pytest.mark.parametrize("linked", [False, True], ids=["written", "linked"])
@pytest.mark.parametrize("name", UNLISTED)
def test_a_text_that_nobody_listed_is_not_there(bundle: Bundle, name: str, linked: bool) -> None:
    plain = Tokenizer.from_bundle(bundle)
    place, outside = bundle.path / name, bundle.path.parent / "outside"
    place.parent.mkdir(exist_ok=True)
    (outside if linked else place).write_text(UNLISTED[name])
    if linked:
        place.symlink_to(outside)
    opened = Bundle.open(bundle.path)
    tokenizer = Tokenizer.from_bundle(opened)
    assert ChatTemplate.from_bundle(opened, tokenizer.special_tokens) is None
    assert tokenizer.special_tokens == plain.special_tokens
    assert tokenizer.vocab_size == plain.vocab_size
    assert TextFiles.of_bundle(opened).object(name) == {}


def test_a_text_that_changed_since_the_bundle_was_opened_is_refused(bundle: Bundle) -> None:
    text = (bundle.path / "tokenizer.json").read_text()
    (bundle.path / "tokenizer.json").write_text(text.replace("a", "b", 1))
    with pytest.raises(BundleError, match=r"tokenizer\.json is damaged") as error:
        Tokenizer.from_bundle(bundle)
    assert error.value.code == "bundle.checksum"


def test_a_text_is_no_larger_than_its_reader_takes(bundle: Bundle) -> None:
    with pytest.raises(StorageError) as error:
        TextFiles.of_bundle(bundle).text("tokenizer.json", limit=10)
    assert error.value.code == "storage.size"


def test_a_bundle_without_a_tokenizer_is_refused(bundle: Bundle) -> None:
    listed = {k: v for k, v in bundle.manifest.files.items() if k != "tokenizer.json"}
    bare = Bundle(bundle.path, replace(bundle.manifest, files=listed))
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        Tokenizer.from_bundle(bare)


@pytest.mark.parametrize(("unit", "times"), [("[],", 1 << 20), ('{"a":0},', 1 << 19)])
def test_lists_without_end_are_refused_before_they_are_read(
    tmp_path: Path, unit: str, times: int
) -> None:
    text = f'{{"a":[{unit * times}0]}}'
    (tmp_path / "tokenizer_config.json").write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="too many lists"):
            TextFiles.of_folder(tmp_path).object("tokenizer_config.json")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(text)
