"""Which files of a repository are taken, and how a choice that is none is refused."""

from __future__ import annotations

import pytest

from edgewise.hub.choice import Choice, choose, gguf_models, quant_of
from edgewise.hub.names import hub_model
from edgewise_runtime.errors import CheckpointError, HubError
from tests.sdk.hub.repositories import FOLDER, READ, WEIGHTS, sharded

INDEX = "model.safetensors.index.json"
USUAL = ["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf", "README.md"]
PARTS = [f"BF16/m-BF16-0000{i}-of-00003.gguf" for i in (1, 2, 3)]


def test_of_a_folder_what_a_compile_reads_is_taken() -> None:
    choice = choose(hub_model("o/r"), FOLDER)
    assert {*choice.small, *choice.weights} == set(READ)
    assert (choice.weights, choice.index, choice.entry) == ((WEIGHTS,), "", "")


def test_shards_are_left_to_their_index() -> None:
    choice = choose(hub_model("o/r"), sharded())
    assert choice.index == INDEX
    assert choice.small[-1] == INDEX
    assert choice.weights == ()


@pytest.mark.parametrize(
    ("typed", "names", "files"),
    [
        ("o/r", ["only-one.gguf"], ["only-one.gguf"]),
        ("o/r", [*USUAL], ["m-Q4_K_M.gguf"]),
        ("o/r", [*USUAL, "m-q4_k_m-imat.gguf"], ["m-Q4_K_M.gguf"]),
        ("o/r:Q8_0", [*USUAL], ["m-Q8_0.gguf"]),
        ("o/r:q8_0", [*USUAL], ["m-Q8_0.gguf"]),
        ("o/r:Q8_0", [*USUAL, *FOLDER], ["m-Q8_0.gguf"]),
        ("o/r:m-Q8_0.gguf", [*USUAL], ["m-Q8_0.gguf"]),
        ("o/r:Q4_K_XL", ["m-UD-Q4_K_XL.gguf", "m-Q4_K.gguf"], ["m-UD-Q4_K_XL.gguf"]),
        ("o/r:Q4_K", ["m-Q4_K_M.gguf", "m.Q4_K.gguf"], ["m.Q4_K.gguf"]),
        ("o/r:Q5_K_M", ["Q5_K_M/m.gguf", "Q6_K/m.gguf"], ["Q5_K_M/m.gguf"]),
        ("o/r:BF16", [*USUAL, *PARTS], PARTS),
        (f"o/r:{PARTS[1]}", [*USUAL, *PARTS], PARTS),
        (f"o/r:{PARTS[0].rpartition('/')[2]}", [*USUAL, *PARTS], PARTS),
    ],
)
def test_of_gguf_files_the_one_that_is_meant_is_taken(
    typed: str, names: list[str], files: list[str]
) -> None:
    assert choose(hub_model(typed), names) == Choice((), tuple(files), entry=files[0])


@pytest.mark.parametrize(
    ("typed", "names", "said"),
    [
        ("o/r", ["m-Q2_K.gguf", "m-Q8_0.gguf"], r"not one Q4_K_M.*such as hf:o/r:Q2_K\..*Q8_0"),
        ("o/r:Q3_K_S", [*USUAL], r"no GGUF file 'Q3_K_S'.*Q2_K, Q4_K_M, Q8_0"),
        ("o/r:other.gguf", [*USUAL], r"no GGUF file 'other.gguf'"),
        ("o/r:Q8_0", ["a-Q8_0.gguf", "b-Q8_0.gguf"], r"2 GGUF files.*a-Q8_0\.gguf, b-Q8_0\.gguf"),
        ("o/r:BF16", PARTS[:2], r"lacks a part.*00003-of-00003"),
        ("o/r:Q8_0", [*FOLDER], r"has no GGUF files.*Leave ':Q8_0' out"),
        ("o/r", [f"m{i}-Q8_0.gguf" for i in range(99)], r"m0-Q8_0.gguf, .*, …\."),
    ],
)
def test_a_file_that_is_not_to_be_told_is_refused_with_what_there_is(
    typed: str, names: list[str], said: str
) -> None:
    with pytest.raises(HubError, match=said) as caught:
        choose(hub_model(typed), names)
    assert caught.value.code == "hub.file"
    assert len(str(caught.value)) < 500


def test_what_errors_name_can_be_typed() -> None:
    names = ["a-Q8_0.gguf", "b-Q8_0.gguf", "b-Q4_0.gguf", "plain.gguf", *PARTS]
    for typed, first in gguf_models(names).items():
        assert choose(hub_model(f"o/r:{typed}"), names).entry == first
    assert list(gguf_models(names)) == ["BF16", "a-Q8_0.gguf", "Q4_0", "b-Q8_0.gguf", "plain.gguf"]


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("SmolLM2-135M-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("llama-2-7b.q5_0.gguf", "q5_0"),
        ("m-UD-IQ1_S.gguf", "UD-IQ1_S"),
        ("m-00001-of-00002.gguf", ""),
        ("m-BF16-00001-of-00002.gguf", "BF16"),
        ("Qwen3-8B.gguf", ""),
        ("-00001-of-00002.gguf", ""),
    ],
)
def test_a_quantization_is_what_a_name_ends_with(name: str, quant: str) -> None:
    assert quant_of(name) == quant


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_a_folder_in_which_something_is_missing_is_refused(missing: str) -> None:
    with pytest.raises(CheckpointError, match=f"o/r has no {missing}"):
        choose(hub_model("o/r"), set(FOLDER) - {missing})


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["config.json", "tokenizer.json", "pytorch_model.bin"],
        ["adapter_config.json", "adapter_model.safetensors"],
        ["onnx/model.safetensors", "config.json"],
    ],
)
def test_a_repository_without_weights_that_are_read_is_refused(names: list[str]) -> None:
    with pytest.raises(HubError, match="no weights that edgewise reads") as caught:
        choose(hub_model("o/r"), names)
    assert caught.value.code == "hub.format"
    assert all(name in caught.value.message for name in names if "/" not in name)


@pytest.mark.parametrize(
    ("names", "said", "typed"),
    [
        (["adapter_config.json", "adapter_model.safetensors"], "an adapter (LoRA)", " o/r"),
        (["config.json", "tokenizer.json", "pytorch_model.bin"], "a pickle", " o/r"),
        (["config.json", "onnx/model_q4.onnx"], "a model in ONNX", "docs/supported.md"),
        (["config.json", "weights.npz"], "as MLX once wrote them", "docs/supported.md"),
        (["config.json", "ndarray-cache.json", "x.bin"], "MLC LLM", "Download the whole folder"),
    ],
)
def test_a_repository_is_told_by_what_lies_in_it(names: list[str], said: str, typed: str) -> None:
    with pytest.raises(HubError) as caught:
        choose(hub_model("o/r"), names)
    assert ": this is " in caught.value.message
    assert said in caught.value.message
    assert typed in caught.value.remedy


def test_a_folder_of_mlc_is_taken_with_its_shards() -> None:
    names = ["mlc-chat-config.json", "tokenizer.json", "ndarray-cache.json", "tensor-cache.json"]
    shards = [f"params_shard_{i}.bin" for i in (0, 1, 10)]
    choice = choose(hub_model("o/r"), [*names, *shards, "README.md", "vocab.json"])
    assert set(choice.small) == set(names) - {"ndarray-cache.json"}
    assert set(choice.weights) == set(shards)
    assert (choice.index, choice.entry) == ("", "")


@pytest.mark.parametrize("gone", ["tokenizer.json", "tensor-cache.json", "params_shard_0.bin"])
def test_a_folder_of_mlc_that_lacks_something_says_what(gone: str) -> None:
    names = {"mlc-chat-config.json", "tokenizer.json", "tensor-cache.json", "params_shard_0.bin"}
    with pytest.raises(CheckpointError, match=r"o/r has no ") as caught:
        choose(hub_model("o/r"), names - {gone})
    assert gone.replace("_0", "_*") in caught.value.message


@pytest.mark.parametrize("names", [["notes.txt"], ["a/config.json"], ["mmproj-model.gguf"]])
def test_nothing_is_said_of_a_repository_that_is_not_known(names: list[str]) -> None:
    with pytest.raises(HubError) as caught:
        choose(hub_model("o/r"), names)
    assert "this is" not in caught.value.message
