"""A checkpoint folder opens when its parts fit together and else says what is wrong."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import SPECIAL, TEMPLATE, make_weights, write_checkpoint
from tests.parity.storing import write_weights

TIED, UNTIED, BIASED = "qwen3-gqa2-tied", "llama-mha", "llama-gqa4-bias-llama3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(UNTIED, tmp_path)


def change(folder: Path, file: str, **changes: Any) -> None:
    """Rewrite some keys of a JSON file; ``...`` removes one."""
    content = json.loads((folder / file).read_text()) | changes
    content = {key: value for key, value in content.items() if value is not ...}
    (folder / file).write_text(json.dumps(content))


def rewrite_weights(folder: Path, name: str, **changes: Any) -> None:
    """Store the case's weights again with some tensors replaced, added or (``...``) removed."""
    tensors: dict[str, Any] = make_weights(CASES[name])
    tensors |= {key.replace("__", "."): value for key, value in changes.items()}
    kept = {key: value for key, value in tensors.items() if value is not ...}
    write_weights(folder, kept, "F32", 1)


def opening_fails(folder: Path, kind: type[EdgewiseError] = CheckpointError) -> str:
    with pytest.raises(kind) as caught:
        open_checkpoint(folder)
    assert caught.value.remedy
    return caught.value.message


@pytest.mark.parametrize("name", CASES)
def test_every_case_opens(tmp_path: Path, name: str) -> None:
    with open_checkpoint(write_checkpoint(name, tmp_path)) as checkpoint:
        config = CASES[name].config
        assert checkpoint.family.architectures == (CASES[name].architecture,)
        assert checkpoint.model.hidden == config["hidden_size"]
        assert checkpoint.model.tied == config["tie_word_embeddings"]
        assert checkpoint.model.eos == (1, 3), "config.json first, then generation_config.json"
        assert checkpoint.tokens == 320
        assert checkpoint.chat_template == TEMPLATE
        assert list(checkpoint.files) == [
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
        ]
        assert checkpoint.weights.read("model.norm.weight").shape == (config["hidden_size"],)


def test_heads_are_as_wide_as_programs_have_them_and_errors_as_files_do(tmp_path: Path) -> None:
    case = "qwen3-d24-odd"
    folder = write_checkpoint(case, tmp_path)
    attention = "model.layers.1.self_attn"
    with open_checkpoint(folder) as checkpoint:
        shapes = {
            part: checkpoint.weights.shape(f"{attention}.{part}.weight")
            for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
        }
    wide = {"q_proj": (96, 96), "k_proj": (32, 96), "v_proj": (32, 96), "o_proj": (96, 96)}
    assert shapes == {**wide, "q_norm": (32,), "k_norm": (32,)}
    rewrite_weights(folder, case, **{f"{attention}.v_proj.weight": np.zeros(wide["v_proj"], "f4")})
    message = opening_fails(folder)
    assert "v_proj.weight has shape [32, 96]; config.json asks for [24, 96]" in message


def test_a_path_may_be_a_string_and_closing_closes(folder: Path) -> None:
    checkpoint = open_checkpoint(str(folder))
    checkpoint.close()
    with pytest.raises(CheckpointError):
        checkpoint.weights.read("model.norm.weight")


def test_only_config_tokenizer_and_weights_are_needed(folder: Path) -> None:
    for file in ("generation_config.json", "tokenizer_config.json"):
        (folder / file).unlink()
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.chat_template is None
        assert checkpoint.model.eos == (1,)
        assert list(checkpoint.files) == ["tokenizer.json"]


def test_a_path_that_is_no_folder_is_refused(folder: Path) -> None:
    assert "no folder" in opening_fails(folder / "nothing")
    assert "no folder and no GGUF" in opening_fails(folder / "config.json")


def test_infinity_is_read_where_python_wrote_it(folder: Path) -> None:
    change(folder, "config.json", time_step_limit=[0.0, float("inf")])
    assert "Infinity" in (folder / "config.json").read_text()
    open_checkpoint(folder).close()
    change(folder, "config.json", rms_norm_eps=float("inf"))
    assert "rms_norm_eps" in opening_fails(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_without_an_essential_file_is_refused(folder: Path, file: str) -> None:
    (folder / file).unlink()
    assert file in opening_fails(folder)


@pytest.mark.parametrize(
    "file", ["config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"]
)
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 100_000, b"9" * 5000]
)
def test_a_malformed_file_is_refused_by_name(folder: Path, file: str, content: bytes) -> None:
    if file == "tokenizer_config.json":
        (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / file).write_bytes(content)
    message = opening_fails(folder)
    assert file in message
    assert len(message) < 500


def test_a_file_of_absurd_size_is_refused_unread(folder: Path) -> None:
    with (folder / "config.json").open("r+b") as file:
        file.truncate(1 << 34)
    assert str(1 << 34) in opening_fails(folder)


@pytest.mark.parametrize("case", [UNTIED, BIASED])
@pytest.mark.parametrize(
    "tensor", ["model__norm__weight", "model__layers__1__mlp__down_proj__weight"]
)
def test_a_missing_tensor_is_named(tmp_path: Path, case: str, tensor: str) -> None:
    folder = write_checkpoint(case, tmp_path)
    rewrite_weights(folder, case, **{tensor: ...})
    assert tensor.replace("__", ".") in opening_fails(folder)


def test_an_untied_model_needs_a_head(folder: Path) -> None:
    rewrite_weights(folder, UNTIED, lm_head__weight=...)
    assert "lm_head.weight" in opening_fails(folder)


def test_a_tensor_of_another_shape_is_refused_with_both_shapes(folder: Path) -> None:
    change(folder, "config.json", num_key_value_heads=2)
    message = opening_fails(folder)
    assert "k_proj.weight" in message
    assert "[64, 64]" in message
    assert "[32, 64]" in message


def test_experts_that_the_file_has_no_room_for_are_refused_before_each_gets_names(
    tmp_path: Path,
) -> None:
    folder = write_checkpoint("qwen3moe-step", tmp_path)
    change(folder, "config.json", num_experts=1000, num_hidden_layers=1000)
    tracemalloc.start()
    try:
        assert "999,000 experts of 64 by 48" in opening_fails(folder)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_tensor_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(BIASED, tmp_path)
    change(folder, "config.json", mlp_bias=False)
    assert "mlp.down_proj.bias" in opening_fails(folder)


def test_buffers_that_old_checkpoints_stored_are_ignored(folder: Path) -> None:
    name = "model__layers__0__self_attn__rotary_emb__inv_freq"
    rewrite_weights(folder, UNTIED, **{name: np.ones(8, np.float32)})
    open_checkpoint(folder).close()


def test_a_second_copy_of_a_tied_head_is_ignored_and_a_different_head_counts(
    tmp_path: Path,
) -> None:
    folder = write_checkpoint(TIED, tmp_path)
    embed = make_weights(CASES[TIED])["model.embed_tokens.weight"]
    rewrite_weights(folder, TIED, lm_head__weight=embed)
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.model.tied
    other = embed.copy()
    other[-1, -1] += 1
    rewrite_weights(folder, TIED, lm_head__weight=other)
    with open_checkpoint(folder) as checkpoint:
        assert not checkpoint.model.tied


def test_an_unknown_architecture_is_refused(folder: Path) -> None:
    change(folder, "config.json", architectures=["GPT2LMHeadModel"])
    assert "'GPT2LMHeadModel'" in opening_fails(folder, UnsupportedError)


def test_a_tokenizer_with_more_ids_than_the_vocabulary_is_refused(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 320, "content": "<x>"})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    message = opening_fails(folder)
    assert "ids up to 320" in message
    assert "vocabulary of 320" in message


@pytest.mark.parametrize("content", [{}, {"version": "1.0"}, {"model": {"type": "Unheard"}}])
def test_json_that_is_no_tokenizer_is_refused(folder: Path, content: object) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "tokenizer.json" in opening_fails(folder)


@pytest.mark.parametrize("eos", [320, -1, "1", [1, None], 1.5, True])
def test_end_tokens_of_the_generation_config_are_checked(folder: Path, eos: object) -> None:
    change(folder, "generation_config.json", eos_token_id=eos)
    assert "'eos_token_id' in generation_config.json" in opening_fails(folder)


def test_more_end_tokens_than_a_program_holds_are_refused(folder: Path) -> None:
    change(folder, "generation_config.json", eos_token_id=list(range(2, 18)))
    assert "17 end-of-text tokens" in opening_fails(folder, UnsupportedError)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (..., None),
        (None, None),
        ("{{ x }}", "{{ x }}"),
        ([], None),
        ([{"name": "chat", "template": "a"}], "a"),
        ([{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}], "b"),
        ([{"name": "tools", "template": "a"}, {"name": "rag", "template": "b"}], None),
    ],
)
def test_the_chat_template_is_found_in_every_form(
    folder: Path, found: object, expected: str | None
) -> None:
    change(folder, "tokenizer_config.json", chat_template=found)
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.chat_template == expected


def test_a_template_file_comes_before_the_one_in_the_config(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ 'ünïcode' }}", encoding="utf-8")
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.chat_template == "{{ 'ünïcode' }}"
        assert "chat_template.jinja" in checkpoint.files


@pytest.mark.parametrize("found", [3, {"default": "x"}, ["x"], [{"name": "x"}], [{"template": 1}]])
def test_a_malformed_chat_template_is_refused(folder: Path, found: object) -> None:
    change(folder, "tokenizer_config.json", chat_template=found)
    assert "chat template in tokenizer_config.json" in opening_fails(folder)


def test_a_template_file_that_is_not_text_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe")
    assert "chat_template.jinja" in opening_fails(folder)


def test_the_tiny_tokenizer_knows_its_special_tokens(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    assert [token["content"] for token in tokenizer["added_tokens"]] == list(SPECIAL)
