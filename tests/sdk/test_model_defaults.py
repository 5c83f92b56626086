"""What a generation_config.json asks for is done, or named once: never passed over in silence."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine
from edgewise.cli.main import main
from edgewise.cli.talk.conversation import Conversation
from edgewise.model_defaults import defaults_from, not_obeyed
from edgewise.request import read_options
from edgewise_runtime.errors import BundleError, InputError
from tests.runtime import sample

CASES = json.loads((Path(__file__).parents[1] / "text/model-defaults.json").read_text("utf-8"))
VOCAB, EOS = 320, (1,)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_a_file_is_read_as_in_a_tab(index: int) -> None:
    case = CASES[index]
    if "error" in case:
        with pytest.raises(BundleError) as caught:
            defaults_from(case["config"], vocab=VOCAB, eos=EOS)
        assert caught.value.code == case["error"]
        return
    found = defaults_from(case["config"], vocab=VOCAB, eos=EOS)
    assert json.loads(json.dumps(found)) == case["defaults"]
    ignored = not_obeyed(case["config"], vocab=VOCAB, eos=EOS)
    assert [name.partition("=")[0] for name in ignored] == case["ignored"]


def test_more_tokens_than_can_be_kept_from_coming_are_named() -> None:
    config = {"suppress_tokens": list(range(321))}
    assert defaults_from(config) == {}
    assert not_obeyed(config) == ["suppress_tokens and bad_words_ids of 321 tokens"]


def test_what_is_named_is_quoted_in_part() -> None:
    [named] = not_obeyed({"x" * 1000: ["y" * 10_000]})
    assert len(named) < 250


def test_what_a_caller_biases_is_added_to_what_the_model_keeps_from_coming() -> None:
    defaults = defaults_from({"suppress_tokens": [5, 7]})
    given = read_options({"logit_bias": {7: 1.0, 9: 2.0}}, defaults).params
    assert given.logit_bias == {5: -1e4, 7: 1.0, 9: 2.0}
    assert read_options({}, defaults).params.logit_bias == {5: -1e4, 7: -1e4}


def test_the_length_of_prompt_and_answer_holds_for_who_says_no_other() -> None:
    defaults = {"max_length": 50, "temperature": 0.5}
    asked = read_options({}, defaults)
    assert asked.of_prompt((1,) * 30).params.max_tokens == 20
    assert read_options({"max_tokens": 70}, defaults).of_prompt((1,) * 60).params.max_tokens == 70
    with pytest.raises(InputError, match="prompt and answer have 50 at most") as caught:
        asked.of_prompt((1,) * 50)
    assert caught.value.code == "input.context"
    assert "max_tokens" in caught.value.remedy


@pytest.fixture(scope="module")
def asking(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny bundle of a model that asks for this and that."""
    folder = Path(shutil.copytree(bundle, tmp_path_factory.mktemp("asking") / "asker"))
    config = {
        "do_sample": False,
        "eos_token_id": list(range(2, 18)),
        "max_length": 40,
        "min_new_tokens": 9,
        "no_repeat_ngram_size": 3,
        "num_beams": 4,
        "suppress_tokens": list(range(100, 320)),
    }
    text = json.dumps(config)
    (folder / "generation_config.json").write_text(text)
    manifest = sample.read_manifest(folder)
    described = {"bytes": len(text), "sha256": sha256(text.encode()).hexdigest()}
    manifest["files"]["generation_config.json"] = described
    sample.write_manifest(folder, manifest)
    return folder


def test_a_model_is_asked_for_what_its_file_says_and_what_it_says_in_vain_is_told(
    asking: Path, engine: Engine
) -> None:
    with pytest.warns(UserWarning, match="asks for what edgewise does not do") as said:
        asker = Engine(asking, trust=True)
    assert "no_repeat_ngram_size=3, num_beams=4." in str(said[0].message)
    assert len(said) == 1
    with asker:
        assert asker.defaults["max_length"] == 40
        done = asker.generate([5] * 25)
        assert max(done.token_ids) < 100
        assert 9 <= len(done.token_ids) <= 15
        options: Any = {"max_tokens": 15, "temperature": 0, "min_tokens": 9}
        options["logit_bias"] = dict.fromkeys(range(100, 320), -1e4)
        assert done.token_ids == engine.generate([5] * 25, **options).token_ids
        conversation = Conversation(asker, {})
        assert 9 <= len(conversation.ask("Hi", lambda text: None).token_ids) < 40


def test_a_command_says_it_once(asking: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(asking), "Hi", "--max-tokens", "2", "--trust"]) == 0
    said = capsys.readouterr()
    assert said.err.count("asks for what edgewise does not do") == 1
    assert "asks for" not in said.out
