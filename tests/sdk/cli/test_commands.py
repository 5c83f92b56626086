"""What each command prints and leaves behind, on a real bundle."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import cached_bundle
from edgewise.cli.chat import QUESTION
from edgewise.cli.main import main
from edgewise.units import size
from edgewise_compiler.compile import compile_model
from edgewise_runtime.errors import StorageError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.installed import WGPU
from tests.compiler.gguf.writing import write_gguf
from tests.compiler.packed.writing import Kind, write_packed
from tests.runtime import sample
from tests.sdk.cli.conftest import Run
from tests.sdk.conftest import FirstUse


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")


@pytest.fixture
def own_bundle(bundle: Path) -> Path:
    """A copy of the bundle as dist/tiny-q4, to be deleted or damaged."""
    return shutil.copytree(bundle, Path("dist/tiny-q4"))


def test_compile_says_what_it_made_and_how_to_use_it(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    checkpoint = checkpoints("llama-gqa2-tied-linear")
    odd = Path(shutil.copytree(checkpoint, "Ein schönes Modell"))
    out = edgewise("compile", odd, "--prefill-chunk", 128)
    folder = Path("dist") / f"{odd.name}-balanced"
    bundle = Bundle.open(folder)
    assert bundle.name == "Ein-sch-nes-Modell-balanced"
    assert f"{folder}: {size(bundle.total_bytes)}, " in out
    assert "cpu-w5a8-" in out
    assert f"edgewise chat '{folder}'" in out


@pytest.mark.landing
def test_a_quantized_file_is_kept_as_it_is_unless_told_otherwise(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    checkpoint = checkpoints("llama-gqa2-tied-linear")
    file = write_gguf(checkpoint, Path("tiny.gguf"), kind="Q4_0", kinds={"token_embd": "Q8_0"})
    kept = edgewise("compile", file, "--prefill-chunk", 128)
    again = edgewise("compile", file, "--prefill-chunk", 128, "--quant", "q4")
    assert "as floats" not in kept
    assert "tiny.gguf are read as floats and stored again as q4" in again
    assert re.search(r"Weights, as-file: q4 .*, q8 .* KiB", kept)
    assert re.search(r"Weights, q4: q4 .*, f32 .* KiB", again)
    assert "as-file, id " in edgewise("inspect", "dist/tiny")
    assert "as-file" in edgewise("ls")
    # Another target would be added to what is there, if it were the same weights.
    with pytest.raises(StorageError, match="quant is as-file there and q4 here"):
        compile_model(file, "dist/tiny", targets=("webgpu",), quant="q4", prefill_chunk=128)


@pytest.mark.landing
def test_a_quantized_folder_is_kept_as_it_is_unless_told_otherwise(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    write_packed(checkpoints("llama-gqa2-tied-linear"), Path("tiny-AWQ"), Kind("awq"))
    kept = edgewise("compile", "tiny-AWQ", "--prefill-chunk", 128)
    assert re.search(r"Weights, as-file: .*q4a .* KiB", kept)
    shown = edgewise("inspect", Path("dist") / "tiny-AWQ")
    assert "as-file, id " in shown
    assert any(line.split()[0] == "q4a" for line in shown.splitlines() if line.strip())
    again = edgewise("compile", "tiny-AWQ", "--prefill-chunk", 128, "--quant", "q4")
    assert "tiny-AWQ are read as floats and stored again as q4" in again
    assert re.search(r"Weights, q4: q4 ", again)


@pytest.mark.landing
def test_a_folder_for_mlc_is_exported_and_compiled_again(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    checkpoint = checkpoints("qwen3-gqa2-tied")
    folder = Path("dist") / f"{checkpoint.name}-q4f16_1-MLC"
    assert f"{folder}: " in edgewise("export", checkpoint)
    config = json.loads((folder / "mlc-chat-config.json").read_text())
    assert config["conv_template"]["seps"] == ["<|end|>", "<|end|>"]
    assert config["conv_template"]["stop_token_ids"] == [1, 3]
    kept = edgewise("compile", folder, "--prefill-chunk", 128, "-o", "dist/kept")
    assert re.search(r"Weights, as-file: q4 .* KiB", kept)
    edgewise("export", "dist/kept", status=1)


def test_a_conversation_of_ones_own_is_written_as_it_is(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    Path("talk.json").write_text('{"name": "mine", "seps": ["x"]}')
    edgewise("export", checkpoints("llama-mha"), "-o", "mine", "--conversation", "talk.json")
    config = json.loads(Path("mine/mlc-chat-config.json").read_text())
    assert config["conv_template"] == {"name": "mine", "seps": ["x"]}
    Path("talk.json").write_text("[]")
    edgewise(
        "export", checkpoints("llama-mha"), "-o", "no", "--conversation", "talk.json", status=1
    )
    assert not Path("no").exists()


@pytest.mark.landing
def test_pages_of_codes_are_compiled_and_inspected(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    checkpoint = checkpoints("llama-gqa2-tied-linear")
    out = edgewise("compile", checkpoint, "--kv", "int8", "--prefill-chunk", 128)
    folder = Path("dist") / f"{checkpoint.name}-balanced-kv8"
    assert str(folder) in out
    shown = edgewise("inspect", folder)
    # Two layers: two KV heads, keys and values of 32 codes each and a word of scales a head.
    assert "int8, 272 bytes a token" in shown
    assert "-kv8" in shown


@pytest.mark.landing
def test_a_recipe_is_compiled_and_inspected(
    edgewise: Run, checkpoints: Callable[[str], Path]
) -> None:
    Path("ends.toml").write_text(
        'name = "ends-q8"\ndefault = "q4"\n[[rule]]\ntensors = "*embed*"\nscheme = "q8"\n'
    )
    checkpoint = checkpoints("llama-gqa2-tied-linear")
    edgewise("compile", checkpoint, "--recipe", "ends.toml", "--prefill-chunk", 128)
    shown = edgewise("inspect", Path("dist") / f"{checkpoint.name}-ends").splitlines()
    assert any(line.split()[:2] == ["weights", "ends-q8,"] for line in shown)
    bits = {line.split()[0]: line.split()[-1] for line in shown if line.startswith(("q", "f32"))}
    assert bits == {"q8": "8.50", "q4": "4.50", "f32": "32.00"}


def test_chat_without_input_asks_one_question(edgewise: Run, bundle: Path) -> None:
    out = edgewise("chat", bundle, "--max-tokens", 5, "--ignore-eos", "--seed", 1)
    assert out.startswith(f"› {QUESTION}\n")
    assert "5 tokens" in out
    assert "tokens/s" in out


def test_chat_takes_each_line_of_input_as_a_turn(edgewise: Run, bundle: Path) -> None:
    turns = edgewise("chat", bundle, "--max-tokens", 5, "--seed", 1, stdin="one\n\n two \n")
    assert [line for line in turns.splitlines() if line.startswith("› ")] == ["› one", "› two"]


def test_chat_remembers_what_was_said(edgewise: Run, bundle: Path, engine: Engine) -> None:
    options = ("--max-tokens", 6, "--temperature", 0, "--system", "S")
    out = edgewise("chat", bundle, *options, stdin="one\ntwo\n")
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "one"}]
    first = engine.chat(messages, max_tokens=6, temperature=0).text
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "two"}]
    second = engine.chat(messages, max_tokens=6, temperature=0).text
    assert first in out
    assert second in out.split("› two\n")[1]


def test_chat_forgets_the_oldest_turns_when_they_no_longer_fit(edgewise: Run, bundle: Path) -> None:
    lines = "\n".join(["the weather " * 12] * 6)
    options = ("--max-tokens", 30, "--ignore-eos", "--temperature", 0)
    out = edgewise("chat", bundle, *options, stdin=lines)
    assert "forgotten" in out
    assert out.count("30 tokens") >= 4


def test_chat_answers_a_given_question(edgewise: Run, bundle: Path) -> None:
    out = edgewise("chat", bundle, "--question", "Why?", "--max-tokens", 3, stdin="not read\n")
    assert out.count("\n") >= 1
    assert "› " not in out
    assert "not read" not in out


@pytest.mark.landing
def test_chat_compiles_a_checkpoint_once_and_says_where(
    first_use: FirstUse, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = cached_bundle(first_use.checkpoint)
    assert f"Compiling {first_use.checkpoint} once, to {cached}" in first_use.said
    assert "Packing weights: " in first_use.said
    assert main(["chat", str(first_use.checkpoint), "--question", "Hi", "--max-tokens", "2"]) == 0
    using, speed, cut = capsys.readouterr().err.splitlines()
    assert using == f"Using {cached}"
    assert speed.startswith("2 tokens · ")
    assert cut.startswith("(cut after 2 tokens")


def test_run_prints_the_continuation(edgewise: Run, bundle: Path, engine: Engine) -> None:
    expected = engine.generate("The quick", max_tokens=8, temperature=0)
    options = ("--max-tokens", 8, "--temperature", 0)
    assert edgewise("run", bundle, "The quick", *options) == expected.text + "\n"
    for given in ("The quick", "The quick\n"):
        assert edgewise("run", bundle, *options, stdin=given) == expected.text + "\n"
    found = json.loads(edgewise("run", bundle, "The quick", "--json", *options))
    assert found["text"] == expected.text
    assert found["token_ids"] == list(expected.token_ids)
    assert found["usage"]["completion_tokens"] == len(expected.token_ids)
    assert found["timings"]["decode_tokens_per_s"] > 0


def test_run_passes_every_sampling_option_on(edgewise: Run, bundle: Path, engine: Engine) -> None:
    flags = "--temperature 1.2 --top-k 30 --top-p 0.8 --min-p 0.01 --repetition-penalty 1.1"
    flags += " --presence-penalty 0.3 --frequency-penalty 0.2 --seed 4 --stop xy --stop zz"
    found = edgewise("run", bundle, "The", "--max-tokens", 20, "--ignore-eos", *flags.split())
    expected = engine.generate(
        "The",
        max_tokens=20,
        ignore_eos=True,
        temperature=1.2,
        top_k=30,
        top_p=0.8,
        min_p=0.01,
        repetition_penalty=1.1,
        presence_penalty=0.3,
        frequency_penalty=0.2,
        seed=4,
        stop=["xy", "zz"],
    )
    assert found == expected.text + "\n"


def test_inspect_shows_the_model_its_programs_and_plans(edgewise: Run, bundle: Path) -> None:
    out = edgewise("inspect", bundle)
    for expected in (
        "llama, 2 layers",
        "context 256",
        "cpu-w4a8-",
        "runs",
        "decode",
        "float16, 512 bytes",
    ):
        assert expected in out


def test_inspect_shows_state_that_cannot_be_run(edgewise: Run, bundle: Path) -> None:
    shutil.copytree(bundle, "dist/other")
    manifest = sample.read_manifest(Path("dist/other"))
    manifest["state_groups"][0]["kind"] = "recurrent"
    sample.write_manifest(Path("dist/other"), manifest)
    out = " ".join(edgewise("inspect", "dist/other").split())
    assert "a page of 16, recurrent" in out
    assert "'kind' is 'recurrent'" in out
    assert "decode" in out
    with pytest.raises(UnsupportedError, match="'kind' is 'recurrent'") as refused:
        Engine("dist/other")
    assert refused.value.code == "unsupported.state"


def test_inspect_lists_the_steps_of_a_plan(edgewise: Run, bundle: Path) -> None:
    out = edgewise("inspect", bundle, "--plan", "decode")
    lines = [line for line in out.splitlines() if "layers.0.attention" in line]
    assert len(lines) == 1
    assert "kv.0" in lines[0]


def test_inspect_tells_what_plans_cost(edgewise: Run, bundle: Path) -> None:
    assert "GB/s measured here" in edgewise("inspect", bundle, "--cost")
    one = edgewise("inspect", bundle, "--cost", "--plan", "decode", "--batch", 4, "--history", 64)
    assert "attention" in one
    rows = [line.split() for line in one.splitlines() if line.startswith("decode ")]
    assert rows
    assert rows[0][1:3] == ["4", "64"]


def test_ls_lists_bundles_and_how_to_make_one(edgewise: Run, bundle: Path) -> None:
    shutil.copytree(bundle, "dist/one")
    shutil.copytree(bundle, "dist/two")
    (Path("dist/two") / "tokenizer.json").write_text("{}")
    Path("dist/neither").mkdir()
    lines = edgewise("ls").splitlines()
    assert [line.split()[0] for line in lines if line.rstrip().endswith("dist")] == ["one", "two"]
    one = next(line for line in lines if line.startswith("one"))
    assert size(Bundle.open(bundle).total_bytes) in one
    assert "unusable" in next(line for line in lines if line.startswith("two"))


def test_ls_without_bundles_says_how_to_get_one(
    edgewise: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "edgewise compile PATH" in edgewise("ls")


def test_rm_deletes_a_bundle_by_name(edgewise: Run, own_bundle: Path) -> None:
    assert "Deleted" in edgewise("rm", "tiny-q4", own_bundle, "--yes")
    assert not own_bundle.exists()
    assert own_bundle.parent.exists()


def test_rm_keeps_what_is_not_the_bundles(edgewise: Run, own_bundle: Path) -> None:
    mine = own_bundle / "programs/notes.txt"
    mine.write_text("mine")
    assert "are kept" in edgewise("rm", own_bundle, "-y")
    assert [path for path in own_bundle.rglob("*") if path.is_file()] == [mine]


def test_rm_does_not_follow_links_out_of_the_bundle(
    edgewise: Run, own_bundle: Path, tmp_path: Path
) -> None:
    (own_bundle / "params").rename(tmp_path / "elsewhere")
    (own_bundle / "params").symlink_to(tmp_path / "elsewhere")
    edgewise("rm", own_bundle, "-y")
    assert list((tmp_path / "elsewhere").rglob("*.safetensors"))


def test_doctor_finds_this_machine_in_order(edgewise: Run, bundle: Path) -> None:
    out = edgewise("doctor", bundle)
    for expected in ("Python", "apache-tvm", "CPU", "signing key", "would run cpu-w4a8-"):
        assert expected in out
    for expected in ("wgpu:0", "driver", "bound up to", "has no webgpu program"):
        assert expected in " ".join(out.split())
    assert "✗" not in out


def test_doctor_says_that_a_bundle_of_others_needs_trust(
    edgewise: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert "only with --trust" in edgewise("doctor", bundle)


def test_doctor_says_what_gpus_need(edgewise: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    out = " ".join(edgewise("doctor").split())
    assert WGPU.install in out


def test_doctor_fails_where_something_is_missing(
    edgewise: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    out = edgewise("doctor", status=1)
    assert "edgewise compile" in next(line for line in out.splitlines() if line.startswith("✗"))
