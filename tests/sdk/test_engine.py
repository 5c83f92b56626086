"""The Engine on a real bundle: what it generates, and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from edgewise import Completion, EdgewiseError, Engine, Stream
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import EngineError, InputError, TrustError

TEXT = "The quick brown fox"
LONG = TEXT * 12
PROMPTS = [TEXT, "A model", "def add(a, b):\n", "Zürich", LONG, "1", "on the desk", "🙂"] * 2


def test_a_prompt_is_continued(engine: Engine) -> None:
    completion = engine.generate(TEXT, max_tokens=12, seed=7)
    assert completion.usage.prompt_tokens == len(engine.tokenizer.encode(TEXT))
    assert completion.usage.completion_tokens == len(completion.token_ids) <= 12
    assert completion.text == engine.tokenizer.decode(
        completion.token_ids, skip_special_tokens=True
    )
    assert completion.timings.ttft_s >= completion.timings.prefill_s > 0
    assert completion.timings.decode_tokens_per_s > 0


@pytest.mark.parametrize("prompt", [TEXT, LONG, "1"])
def test_greedy_tokens_are_the_likeliest_by_score(engine: Engine, prompt: str) -> None:
    """Prefill gives the same logits as decode, in chunks and in bursts."""
    ids = engine.tokenizer.encode(prompt)
    generated = list(engine.generate(prompt, max_tokens=40, temperature=0).token_ids)
    logits = engine.score(ids + generated[:-1])
    assert logits.dtype == np.float32
    assert logits.shape == (len(ids) + len(generated) - 1, engine.model.vocab)
    assert logits[len(ids) - 1 :].argmax(-1).tolist() == generated


def test_scores_do_not_depend_on_where_chunks_are_cut(engine: Engine) -> None:
    ids = engine.tokenizer.encode(LONG)
    assert len(ids) > engine.model.prefill_chunk
    whole = engine.score(ids)
    np.testing.assert_array_equal(engine.score(ids[:50]), whole[:50])


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0},
        {"temperature": 1.5, "seed": 3},
        {"temperature": 0.9, "seed": 5, "top_k": 20, "repetition_penalty": 1.3},
    ],
)
def test_a_list_gives_what_each_prompt_gives_alone(
    engine: Engine, sampling: dict[str, Any]
) -> None:
    together = engine.generate(PROMPTS, max_tokens=19, **sampling)
    alone = [engine.generate(prompt, max_tokens=19, **sampling) for prompt in PROMPTS]
    assert len(PROMPTS) > engine.model.max_batch
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert [c.text for c in together] == [c.text for c in alone]


def test_a_seed_repeats_and_its_absence_does_not(engine: Engine) -> None:
    def draw(seed: int | None) -> Completion:
        return engine.generate(TEXT, max_tokens=24, temperature=2.0, top_p=1, seed=seed)

    assert draw(11).token_ids == draw(11).token_ids
    assert draw(11).token_ids != draw(12).token_ids
    first, second = draw(None), draw(None)
    assert first.token_ids != second.token_ids
    assert draw(first.seed).token_ids == first.token_ids


def test_token_ids_are_taken_as_they_are(engine: Engine) -> None:
    ids = engine.tokenizer.encode(TEXT)
    from_text = engine.generate(TEXT, max_tokens=8, temperature=0)
    assert engine.generate(ids, max_tokens=8, temperature=0).token_ids == from_text.token_ids
    [listed] = engine.generate([ids], max_tokens=8, temperature=0)
    assert listed.token_ids == from_text.token_ids


def test_a_stream_gives_the_same_text_in_pieces(engine: Engine) -> None:
    whole = engine.generate(TEXT, max_tokens=30, seed=1)
    stream = engine.generate(TEXT, max_tokens=30, seed=1, stream=True)
    pieces = list(stream)
    assert "".join(pieces) == whole.text == stream.completion.text
    assert stream.completion.token_ids == whole.token_ids
    assert "" not in pieces


def test_closing_a_stream_cancels_it(engine: Engine) -> None:
    stream = engine.generate(TEXT, max_tokens=200, ignore_eos=True, stream=True, seed=1)
    first = next(stream)
    assert engine.generate(TEXT, max_tokens=2).usage.completion_tokens == 2
    stream.close()
    stream.close()
    assert stream.completion.finish_reason in ("cancelled", "length")
    assert stream.completion.text.startswith(first)
    assert list(stream) == []


def test_a_completion_is_not_known_before_its_stream_has_ended(engine: Engine) -> None:
    with (
        engine.generate(TEXT, max_tokens=230, ignore_eos=True, stream=True) as stream,
        pytest.raises(InputError, match="before the stream has ended"),
    ):
        _ = stream.completion


def test_a_stream_that_is_dropped_is_cancelled(engine: Engine) -> None:
    before = engine.metrics()["request_success_total"]["cancelled"]
    next(engine.generate(TEXT, max_tokens=230, ignore_eos=True, stream=True))
    engine.generate(TEXT, max_tokens=30, ignore_eos=True)
    assert engine.metrics()["request_success_total"]["cancelled"] == before + 1


def test_a_stream_closed_at_once_has_ended(engine: Engine) -> None:
    with engine.generate(TEXT, max_tokens=230, ignore_eos=True, stream=True) as stream:
        pass
    assert list(stream) == []
    assert stream.completion.finish_reason == "cancelled"


def test_threads_get_what_each_would_get_alone(engine: Engine) -> None:
    alone = [engine.generate(p, max_tokens=10, temperature=0).text for p in PROMPTS[:4]]
    answers: dict[int, str] = {}

    def ask(index: int) -> None:
        answers[index] = engine.generate(PROMPTS[index], max_tokens=10, temperature=0).text

    threads = [Thread(target=ask, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[index] for index in range(4)] == alone


def test_another_thread_may_close_a_stream(engine: Engine) -> None:
    stream = engine.generate(TEXT, max_tokens=240, ignore_eos=True, stream=True)
    pieces: list[str] = []
    begun, closed = Event(), Event()

    def read() -> None:
        for piece in stream:
            pieces.append(piece)
            begun.set()
        closed.set()

    reader = Thread(target=read)
    reader.start()
    assert begun.wait(60)
    stream.close()
    reader.join(60)
    assert closed.is_set()
    assert stream.completion.text.startswith("".join(pieces))
    assert engine.generate(TEXT, max_tokens=2)


def test_an_engine_may_be_closed_while_other_threads_read_and_wait(bundle: Path) -> None:
    engine = Engine(bundle)
    options: dict[str, Any] = {"max_tokens": 240, "ignore_eos": True, "stream": True}
    streams = [engine.generate(TEXT, **options) for _ in range(3)]
    failures: list[BaseException] = []

    def read(stream: Stream) -> None:
        try:
            for _ in stream:
                pass
        except BaseException as error:
            failures.append(error)

    next(streams[0])
    readers = [Thread(target=read, args=(stream,)) for stream in streams]
    for reader in readers:
        reader.start()
    engine.close()
    for reader in readers:
        reader.join(60)
    assert failures == []
    assert {stream.completion.finish_reason for stream in streams} <= {"cancelled", "length"}


def test_generation_ends_at_max_tokens_or_with_the_context(engine: Engine) -> None:
    short = engine.generate(TEXT, max_tokens=3, ignore_eos=True)
    assert (short.finish_reason, len(short.token_ids)) == ("length", 3)
    prompt = engine.tokenizer.encode(LONG * 3)[: engine.context - 5]
    full = engine.generate(prompt, max_tokens=100, ignore_eos=True)
    assert (full.finish_reason, len(full.token_ids)) == ("length", 5)


def test_an_end_token_stops_unless_ignored(engine: Engine) -> None:
    eos = engine.model.eos[0]
    biased: dict[str, Any] = {"logit_bias": {eos: 1e4}, "temperature": 0, "max_tokens": 5}
    stopped = engine.generate(TEXT, **biased)
    assert (stopped.text, stopped.token_ids, stopped.finish_reason) == ("", (eos,), "stop")
    ignored = engine.generate(TEXT, ignore_eos=True, **biased)
    assert (ignored.token_ids, ignored.finish_reason) == ((eos,) * 5, "length")


def test_a_stop_string_ends_the_text_before_it(engine: Engine) -> None:
    whole = engine.generate(TEXT, max_tokens=40, seed=2, ignore_eos=True).text
    stop = whole[10:13]
    for stream in (False, True):
        options: dict[str, Any] = {"max_tokens": 40, "seed": 2, "ignore_eos": True, "stop": stop}
        if stream:
            streamed = engine.generate(TEXT, stream=True, **options)
            assert "".join(streamed) == whole[: whole.index(stop)]
            stopped = streamed.completion
        else:
            stopped = engine.generate(TEXT, **options)
        assert stopped.text == whole[: whole.index(stop)]
        assert stopped.finish_reason == "stop"


def test_a_stop_token_ends_the_generation(engine: Engine) -> None:
    whole = engine.generate(TEXT, max_tokens=12, temperature=0, ignore_eos=True)
    stop = whole.token_ids[5]
    stopped = engine.generate(
        TEXT, max_tokens=12, temperature=0, ignore_eos=True, stop_token_ids=[stop]
    )
    end = whole.token_ids.index(stop) + 1
    assert (stopped.token_ids, stopped.finish_reason) == (whole.token_ids[:end], "stop")


def test_a_strong_penalty_never_repeats_a_token(engine: Engine) -> None:
    completion = engine.generate(
        TEXT, max_tokens=60, temperature=0, presence_penalty=100, ignore_eos=True
    )
    assert len(set(completion.token_ids)) == 60


def test_chat_renders_the_models_template(engine: Engine) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    prompt = engine.render(messages)
    assert prompt == "<|begin|><|user|>Hello<|end|><|assistant|>"
    chatted = engine.chat(messages, max_tokens=9, temperature=0)
    ids = engine.tokenizer.encode(prompt, add_special_tokens=False)
    assert chatted.token_ids == engine.generate(ids, max_tokens=9, temperature=0).token_ids
    with engine.chat(messages, max_tokens=9, temperature=0, stream=True) as stream:
        assert "".join(stream) == chatted.text


@pytest.mark.parametrize(
    ("prompt", "options", "code", "said"),
    [
        ("", {}, "input.empty", "empty"),
        ([], {}, "input.empty", "empty"),
        ([[1], []], {}, "input.empty", "empty"),
        (7, {}, "input.prompt", "7"),
        ([1.5], {}, "input.prompt", "1.5"),
        ([[[1]]], {}, "input.prompt", "is no prompt"),
        (["a", 3], {}, "input.prompt", "is no prompt"),
        ([-1], {}, "input.token", "-1"),
        ([320], {}, "input.token", "320"),
        (["x" * 999], {}, "input.context", "256"),
        ("x", {"temperature": -2}, "input.sampling", "-2"),
        ("x", {"frobnicate": 1}, "input.sampling", "frobnicate"),
        ("x", {"logit_bias": {320: 1.0}}, "input.token", "320"),
        ("x", {"stop_token_ids": [320]}, "input.token", "320"),
        ([True], {}, "input.prompt", "True"),
        (["x", "y"], {"stream": True}, "input.stream", "one prompt"),
    ],
)
def test_what_cannot_be_generated_is_refused_at_once(
    engine: Engine, prompt: Any, options: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(EdgewiseError, match=said) as caught:
        engine.generate(prompt, **options)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ([], "input.empty"),
        ([1] * 257, "input.context"),
        ([999], "input.token"),
        ([1.5], "input.prompt"),
        ("text", "input.prompt"),
    ],
)
def test_what_cannot_be_scored_is_refused(engine: Engine, tokens: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        engine.score(tokens)
    assert caught.value.code == code


def test_a_whole_context_can_be_scored(engine: Engine) -> None:
    assert engine.score([5] * engine.context).shape == (256, 320)


def test_a_smaller_context_bounds_prompt_and_answer(bundle: Path) -> None:
    with Engine(bundle, context=32) as engine:
        assert engine.context == 32
        assert engine.generate([5] * 30, ignore_eos=True).usage.total_tokens == 32
        with pytest.raises(InputError, match="32"):
            engine.generate([5] * 32)


@pytest.mark.parametrize("context", [0, 1, 257, -4, 2.5, True])
def test_a_context_the_bundle_cannot_have_is_refused(bundle: Path, context: Any) -> None:
    with pytest.raises(InputError, match="256") as caught:
        Engine(bundle, context=context)
    assert caught.value.code == "input.context"


def test_an_unknown_device_is_refused(bundle: Path) -> None:
    with pytest.raises(InputError, match="'tpu'"):
        Engine(bundle, device="tpu")


def test_a_closed_engine_says_so(bundle: Path) -> None:
    with Engine(bundle) as engine:
        stream = engine.generate(TEXT, max_tokens=100, ignore_eos=True, stream=True)
        next(stream)
    assert stream.completion.finish_reason == "cancelled"
    engine.close()
    with pytest.raises(EngineError) as caught:
        engine.generate(TEXT)
    assert caught.value.code == "engine.closed"


def test_native_code_of_others_runs_only_when_trusted(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(TrustError):
        Engine(bundle)
    with Engine(bundle, trust=True) as engine:
        assert engine.generate(TEXT, max_tokens=2).token_ids


def test_the_engine_tells_what_it_runs(engine: Engine) -> None:
    assert engine.program.startswith("cpu-w4a8-")
    assert engine.device == CpuDevice().name
    assert engine.name in repr(engine)
    assert engine.memory()["param"] > 0
