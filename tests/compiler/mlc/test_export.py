"""What is exported for MLC LLM is what the format says, and reads back as what it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.mlc import shards
from edgewise_compiler.mlc.codes import from_q4, words
from edgewise_compiler.mlc.export import export_mlc, tokenizer_info
from edgewise_compiler.quantize.codes import CodedRows
from edgewise_runtime.errors import StorageError, UnsupportedError
from tests.compiler.gguf.writing import write_gguf
from tests.compiler.mlc.writing import CONVERSATION, write_mlc
from tests.compiler.packed.writing import Kind, write_packed

Folders = Callable[[str], Path]

CASES = ("llama-gqa2-tied-linear", "qwen3-gqa2-tied", "llama-mha")


def listed(folder: Path) -> dict[str, dict[str, Any]]:
    """Every tensor of a folder with its bytes, by hand."""
    records = json.loads((folder / "tensor-cache.json").read_text())["records"]
    assert json.loads((folder / "ndarray-cache.json").read_text())["records"] == records
    found: dict[str, dict[str, Any]] = {}
    for shard in records:
        raw = (folder / shard["dataPath"]).read_bytes()
        assert (shard["nbytes"], shard["format"]) == (len(raw), "raw-shard")
        assert shard["md5sum"] == hashlib.md5(raw).hexdigest()
        for item in shard["records"]:
            data = raw[item["byteOffset"] :][: item["nbytes"]]
            found[item["name"]] = {**item, "data": data}
    return found


@pytest.mark.parametrize("quantization", ["q4f16_1", "q4f32_1", "q0f16", "q0f32"])
@pytest.mark.parametrize("case", CASES)
def test_a_folder_is_byte_for_byte_what_is_written_by_hand(
    case: str, quantization: str, checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints(case), tmp_path / "hand", quantization, cache="tensor-cache.json")
    (tmp_path / "hand/ndarray-cache.json").write_bytes(
        (tmp_path / "hand/tensor-cache.json").read_bytes()
    )
    export_mlc(checkpoints(case), tmp_path / "ours", CONVERSATION, quantization=quantization)
    ours, theirs = listed(tmp_path / "ours"), listed(tmp_path / "hand")
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        for key in ("shape", "dtype", "nbytes", "data"):
            assert tensor[key] == theirs[name][key], (name, key)


@pytest.mark.landing
def test_an_exported_folder_and_one_written_by_hand_answer_alike(
    checkpoints: Folders, tmp_path: Path
) -> None:
    folder = checkpoints("qwen3-gqa2-tied")
    write_mlc(folder, tmp_path / "hand", "q4f16_1")
    export_mlc(folder, tmp_path / "ours", CONVERSATION)
    scores = []
    for name in ("hand", "ours"):
        bundle = compile_model(tmp_path / name, tmp_path / f"{name}-bundle", prefill_chunk=128)
        with Engine(bundle) as engine:
            scores.append(engine.score(list(range(2, 60))))
    np.testing.assert_array_equal(*scores)


def test_configuration_comes_back_as_it_was(checkpoints: Folders, tmp_path: Path) -> None:
    for case in CASES:
        export_mlc(checkpoints(case), tmp_path / case, CONVERSATION)
        with open_checkpoint(tmp_path / case) as found, open_checkpoint(checkpoints(case)) as was:
            assert found.model == was.model


def test_what_stock_loaders_look_for_is_there(checkpoints: Folders, tmp_path: Path) -> None:
    export_mlc(checkpoints(CASES[0]), tmp_path / "ours", CONVERSATION)
    config = json.loads((tmp_path / "ours/mlc-chat-config.json").read_text())
    assert config["conv_template"] == CONVERSATION
    assert config["tokenizer_files"] == ["tokenizer.json", "tokenizer_config.json"]
    assert config["tokenizer_info"] == {
        "token_postproc_method": "byte_level",
        "prepend_space_in_encode": False,
        "strip_space_in_decode": False,
    }
    assert (config["model_type"], config["quantization"]) == ("llama", "q4f16_1")
    assert (config["context_window_size"], config["sliding_window_size"]) == (256, -1)
    for file in config["tokenizer_files"]:
        assert (tmp_path / "ours" / file).is_file()


@pytest.mark.parametrize("source", ["gguf", "gptq", "pack", "mlc"])
def test_codes_of_q4_are_exported_without_changing_one(
    source: str, checkpoints: Folders, tmp_path: Path
) -> None:
    folder, given = checkpoints(CASES[0]), tmp_path / "given"
    if source == "gguf":
        # Of Q4_0 half of the groups have a code of -8.
        given = write_gguf(folder, tmp_path / "given.gguf", kind="Q4_0")
    elif source == "mlc":
        write_mlc(folder, given, "q4f16_1")
    else:
        write_packed(folder, given, Kind(source, symmetric=True))
    export_mlc(given, tmp_path / "ours", CONVERSATION)
    with open_checkpoint(tmp_path / "ours") as ours, open_checkpoint(given) as theirs:
        kept = [name for name, own in theirs.held.items() if "q4" in own]
        assert len(kept) >= 14
        for name in kept:
            np.testing.assert_array_equal(ours.weights.read(name), theirs.weights.read(name))


def test_every_code_of_q4_has_one_of_mlc() -> None:
    codes = np.array([[*range(16), *[8] * 16], [*range(1, 16), *[8] * 17]], np.uint8)
    scales = np.array([[0.5], [-0.25]], np.float16)
    found, numbers = from_q4(CodedRows(codes, {"scale": scales}))
    values = (found.astype(np.float32) - 7) * numbers
    np.testing.assert_array_equal(values, (codes.astype(np.float32) - 8) * scales)
    assert found.max() == 15
    assert words(found)[:2].tolist() == [15 | 14 << 4, 13 | 12 << 4]


def test_shards_hold_whole_tensors_up_to_their_size(
    checkpoints: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "CAP", 20_000)
    export_mlc(checkpoints(CASES[0]), tmp_path / "ours", CONVERSATION)
    sizes = [file.stat().st_size for file in (tmp_path / "ours").glob("*.bin")]
    assert len(sizes) > 5
    records = json.loads((tmp_path / "ours/tensor-cache.json").read_text())["records"]
    assert all(len(r["records"]) == 1 for r in records if r["nbytes"] > 20_000)
    listed(tmp_path / "ours")
    open_checkpoint(tmp_path / "ours").close()


@pytest.mark.parametrize(
    ("case", "said"),
    [("llama-gqa4-bias-llama3", "has no biases"), ("qwen3-d24-odd", "Heads of 24 elements")],
)
def test_what_mlc_has_not_is_refused(
    case: str, said: str, checkpoints: Folders, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        export_mlc(checkpoints(case), tmp_path / "ours", CONVERSATION)
    assert not (tmp_path / "ours").exists()


def test_nothing_is_written_over(checkpoints: Folders, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    with pytest.raises(StorageError, match="exists"):
        export_mlc(checkpoints(CASES[0]), tmp_path / "ours", CONVERSATION)


def test_tokens_that_stand_for_bytes_are_told_from_others() -> None:
    decoder = {
        "type": "Sequence",
        "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip"}],
    }
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend"}, {"type": "Replace"}]}
    raw = json.dumps({"decoder": decoder, "normalizer": normalizer}).encode()
    assert tokenizer_info(raw) == {
        "token_postproc_method": "byte_fallback",
        "prepend_space_in_encode": True,
        "strip_space_in_decode": True,
    }
