"""What `run` and `chat` can be told about how to generate, and what they say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import cached_bundle
from edgewise.cli.main import main
from tests.sdk.cli.conftest import Run
from tests.sdk.conftest import FirstUse

GREEDY = ("--temperature", 0, "--ignore-eos")


def test_guesses_are_counted_and_change_nothing(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["run", bundle, "1 2 3 4 " * 8, "--max-tokens", 40, *GREEDY]
    said = []
    for draft in ([], ["--draft", "lookup"]):
        assert main([str(arg) for arg in asked + draft]) == 0
        said.append(capsys.readouterr())
    assert said[0].out == said[1].out
    assert "guesses" not in said[0].err
    assert " guesses right" in said[1].err


def test_a_draft_that_is_no_model_is_refused(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(bundle), "x", "--draft", "nowhere"]) == 1
    assert "'nowhere' is no model" in capsys.readouterr().err


@pytest.mark.landing
def test_a_draft_may_be_a_checkpoint(
    bundle: Path, first_use: FirstUse, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = str(first_use.checkpoint)
    assert main(["run", str(bundle), "x", "--max-tokens", "2", "--draft", draft]) == 0
    assert f"Using {cached_bundle(first_use.checkpoint)}\n" in capsys.readouterr().err


def test_log_probabilities_are_part_of_the_json(
    edgewise: Run, bundle: Path, engine: Engine
) -> None:
    asked = ("run", bundle, "The quick", "--json", "--max-tokens", 6, *GREEDY)
    assert "logprobs" not in json.loads(edgewise(*asked))
    plain = json.loads(edgewise(*asked, "--logprobs"))["logprobs"]
    expected = engine.generate(
        "The quick", max_tokens=6, temperature=0, ignore_eos=True, logprobs=True, top_logprobs=2
    )
    assert expected.logprobs is not None
    assert [(t["token_id"], t["logprob"], t["top"]) for t in plain] == [
        (t.token_id, t.logprob, []) for t in expected.logprobs
    ]
    for flags in (["--top-logprobs", 2], ["--logprobs", "--top-logprobs", 2]):
        found = json.loads(edgewise(*asked, *flags))
        assert found["logprobs"] == expected.to_json()["logprobs"]


@pytest.mark.parametrize("flags", [["--logprobs"], ["--top-logprobs", "3"]])
def test_log_probabilities_need_json(
    bundle: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(bundle), "x", *flags]) == 1
    assert "Add --json. [input.option]" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_run_is_traced(edgewise: Run, bundle: Path, tmp_path: Path, flags: list[str]) -> None:
    file = tmp_path / "trace.json"
    edgewise("run", bundle, "x", "--max-tokens", 9, *flags, "--trace", file)
    assert any(event["ph"] == "X" for event in json.loads(file.read_text())["traceEvents"])


def test_a_trace_that_cannot_be_written_is_refused_before_anything_is_generated(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(bundle), "x", "--trace", str(tmp_path / "no" / "trace.json")]) == 1
    said = capsys.readouterr()
    assert (said.out, "[storage.missing]" in said.err) == ("", True)


def test_a_full_context_is_said(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", bundle, "x", "--context", 20, "--max-tokens", 99, "--ignore-eos"]
    assert main([str(arg) for arg in asked]) == 0
    assert "the context is full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*["short"] * 4, "the weather " * 44], "oldest turns no longer fit and are forgotten)"),
        (["the weather " * 12] * 6, "(the oldest turn no longer fits and is forgotten)"),
    ],
)
def test_chat_says_how_many_turns_it_forgets(
    edgewise: Run, bundle: Path, lines: list[str], said: str
) -> None:
    out = edgewise("chat", bundle, "--max-tokens", 9, *GREEDY, stdin="\n".join(lines))
    assert said in out
    assert out.count("\n9 tokens · ") == len(lines)


def test_an_answer_may_be_longer_than_what_is_left(edgewise: Run, bundle: Path) -> None:
    lines = ["the weather " * 5, "the weather " * 5, "And now?"]
    out = edgewise("chat", bundle, "--max-tokens", 120, *GREEDY, stdin="\n".join(lines))
    assert out.count("\n120 tokens · ") == 3
    assert "forgotten" in out


def test_a_stream_of_json_is_the_pieces_and_then_what_they_came_to(
    edgewise: Run, bundle: Path, engine: Engine
) -> None:
    expected = engine.generate("The quick", max_tokens=9, temperature=0, ignore_eos=True)
    asked = ("run", bundle, "The quick", "--max-tokens", 9, *GREEDY)
    *pieces, whole = map(json.loads, edgewise(*asked, "--json", "--stream").splitlines())
    assert len(pieces) > 1
    assert "".join(line.pop("piece") for line in pieces) == expected.text == whole["text"]
    assert not any(pieces)
    (alone,) = edgewise(*asked, "--json").splitlines()
    assert json.loads(alone).keys() == whole.keys()


def test_a_stream_is_one_of_json(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(bundle), "x", "--stream"]) == 1
    assert "Add --json. [input.option]" in " ".join(capsys.readouterr().err.split())
