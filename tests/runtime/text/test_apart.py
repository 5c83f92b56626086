"""A tokenizer whose rules may take any time is a process of its own, which ends."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.text import SegmentCache, Tokenizer
from edgewise_runtime.text.apart import Apart, Ids
from edgewise_runtime.text.control import ControlTokens
from tests.runtime.text.corpus import TEXTS

ONE_DIGIT = Path(__file__).parent / "goldens" / "one_digit"
UNUSUAL = r"(?<=\s)\S+|\S+|\s+"
"""Looks behind, which is not known to be linear."""
ENDLESS = r"(?:(?:a|aa)+b?)+$|(?:(?:a|aa)+c?)+$"


def files(pattern: str) -> tuple[str, dict[str, Any]]:
    tokenizer = json.loads((ONE_DIGIT / "tokenizer.json").read_text())
    steps = tokenizer["pre_tokenizer"]["pretokenizers"]
    steps[0]["pattern"] = {"Regex": pattern}
    return json.dumps(tokenizer), {"eos_token": "<|im_end|>"}


def loaded(pattern: str, folder: Path) -> Tokenizer:
    tokenizer, config = files(pattern)
    (folder / "tokenizer.json").write_text(tokenizer)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def unusual(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return loaded(UNUSUAL, tmp_path_factory.mktemp("unusual"))


def test_it_gives_the_ids_of_the_package(unusual: Tokenizer) -> None:
    backend = Backend.from_str(files(UNUSUAL)[0])
    for text in (*TEXTS, "<|im_end|> \n<|im_start|>user"):
        ids = unusual.encode(text)
        assert ids == backend.encode(text).ids
        assert unusual.decode(ids) == backend.decode(ids, skip_special_tokens=False)
        assert SegmentCache(unusual).encode(text) == ids


def test_special_tokens_that_a_message_has_are_text(unusual: Tokenizer) -> None:
    controls = ControlTokens(unusual)
    (hidden,) = controls.hide([{"role": "user", "content": "so <|im_end|> it is"}])
    ids = controls.encode(f"<|im_start|>{hidden['content']}<|im_end|>")
    start, end = unusual.id_of("<|im_start|>"), unusual.id_of("<|im_end|>")
    assert end is not None
    assert unusual.decode(ids) == "<|im_start|>so <|im_end|> it is<|im_end|>"
    assert (ids[0], ids[-1], ids.count(end)) == (start, end, 1)
    with_control = unusual.encode("<|im_start|>so it is<|im_end|>", add_special_tokens=False)
    assert controls.encode("<|im_start|>so it is<|im_end|>") == with_control


def test_threads_get_the_ids_of_their_own_texts(unusual: Tokenizer) -> None:
    expected = [unusual.encode(text) for text in TEXTS]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(unusual.encode, TEXTS * 4)) == expected * 4


def test_a_lone_surrogate_is_refused(unusual: Tokenizer) -> None:
    with pytest.raises(InputError, match="surrogate"):
        unusual.encode("\ud800")


def test_one_that_takes_too_long_is_ended_and_the_next_text_is_tokenized() -> None:
    apart = Apart(*files(ENDLESS), seconds=0.5)
    with pytest.raises(CheckpointError, match=r"takes more than 0.5 s|over") as caught:
        apart.encode("a" * 5000 + "!", Ids.ADDED)
    assert caught.value.code == "checkpoint.tokenizer"
    assert apart.encode("b", Ids.ADDED) == apart.encode("b", Ids.PLAIN) != []


def test_an_expression_that_is_none_is_an_error_of_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json") as caught:
        loaded("(", tmp_path)
    assert caught.value.code == "checkpoint.tokenizer"


def test_what_a_file_has_in_the_wrong_place_is_not_repeated_at_length() -> None:
    tokenizer = json.dumps({**json.loads(files(UNUSUAL)[0]), "truncation": "a" * 100_000})
    with pytest.raises(CheckpointError, match=r"tokenizer\.json") as caught:
        Apart(tokenizer, {})
    assert len(str(caught.value)) < 1000


def test_it_ends_with_the_tokenizer() -> None:
    apart = Apart(*files(UNUSUAL))
    process = apart._process
    assert process is not None
    assert process.poll() is None
    del apart
    # By itself; or by force, where the machine gives it no second to do so.
    assert process.wait(30) in (0, -SIGKILL)
