"""Requests that run side by side, from many threads: each gets what it would get alone."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

from edgewise import Completion, Engine, Generation, Piece, Settings
from edgewise_runtime.errors import EngineError, InputError
from tests.sdk.gate import PATIENCE, Gate

TEXT = "The quick brown fox"
PROMPTS = [TEXT, "A model", "def add(a, b):\n", "Zürich", TEXT * 12, "1", "on the desk", "🙂"]
LONG: dict[str, Any] = {"max_tokens": 240, "ignore_eos": True}


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="module")
def gated(bundle: Path, gate: Gate) -> Iterator[Engine]:
    with Engine(bundle, device=gate, settings=Settings(max_waiting=3)) as engine:
        yield engine


def cancelled(engine: Engine) -> int:
    counts: dict[str, int] = engine.metrics()["request_success_total"]
    return counts["cancelled"]


def sampling(index: int) -> dict[str, Any]:
    """Options that differ in every way from those of the neighbours."""
    return {
        "max_tokens": 6 + 5 * (index % 4),
        "temperature": (0, 0.8, 1.7)[index % 3],
        "seed": index,
        "repetition_penalty": (1.0, 1.3)[index % 2],
        "stop": ("e", "~~")[index % 2],
        "ignore_eos": True,
    }


def test_forty_requests_of_ten_threads_get_what_each_gets_alone(engine: Engine) -> None:
    asked = [(PROMPTS[i % len(PROMPTS)], sampling(i)) for i in range(40)]
    alone = [engine.generate(prompt, **options) for prompt, options in asked]

    def ask(index: int) -> Completion:
        prompt, options = asked[index]
        if index % 2:
            return engine.generate(prompt, **options)
        stream = engine.generate(prompt, stream=True, **options)
        assert "".join(stream) == stream.completion.text
        return stream.completion

    with ThreadPoolExecutor(10) as threads:
        together = list(threads.map(ask, range(40)))
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert [c.text for c in together] == [c.text for c in alone]
    assert [c.finish_reason for c in together] == [c.finish_reason for c in alone]


def test_pieces_make_up_the_completion(engine: Engine) -> None:
    generation = engine.submit(TEXT, max_tokens=30, seed=1)
    pieces = list(generation)
    completion = generation.result()
    assert generation.done
    assert "".join(piece.text for piece in pieces) == completion.text
    assert sum((piece.token_ids for piece in pieces), ()) == completion.token_ids
    assert completion == generation.completions()[0]
    assert list(generation) == []


def test_several_threads_may_read_one_generation(engine: Engine) -> None:
    generation = engine.submit(TEXT, n=3, seed=1, max_tokens=60, ignore_eos=True)
    with ThreadPoolExecutor(4) as readers:
        read = readers.map(lambda _: list(generation), range(4), timeout=PATIENCE)
        pieces = [piece for each in read for piece in each]
    for completion in generation.results():
        mine = [p.token_ids for p in pieces if p.index == completion.index]
        assert sorted(sum(mine, ())) == sorted(completion.token_ids)


@pytest.mark.parametrize("draft", ["lookup", "itself"])
def test_guesses_change_nothing_but_the_time(bundle: Path, engine: Engine, draft: str) -> None:
    prompts = [TEXT * 6, "1 2 3 4 " * 8, "on the desk"]
    asked = [(p, t) for p in prompts for t in (0.0, 0.7)]

    def ask(engine: Engine) -> list[tuple[int, ...]]:
        return [
            engine.generate(p, temperature=t, seed=3, max_tokens=40, ignore_eos=True).token_ids
            for p, t in asked
        ]

    with Engine(bundle, draft=bundle if draft == "itself" else draft) as guessing:
        assert ask(guessing) == ask(engine)
        # A draft that takes as long as what it guesses for is not asked.
        accepted = guessing.metrics()["spec_decode_num_accepted_tokens_total"]
        assert bool(accepted) == (draft == "lookup")


def test_a_request_ends_when_its_time_is_up(gated: Engine, gate: Gate) -> None:
    generation = gated.submit(TEXT, timeout_s=0.1, **LONG)
    first = next(generation)
    gate.close()
    sleep(0.1)
    gate.open()
    completion = generation.result()
    assert completion.finish_reason == "timeout"
    assert completion.token_ids[:1] == first.token_ids
    assert len(completion.token_ids) < 240


def test_a_request_whose_time_is_up_before_it_runs_has_no_text(engine: Engine) -> None:
    completion = engine.generate(TEXT, timeout_s=1e-9)
    assert (completion.finish_reason, completion.token_ids) == ("timeout", ())


def test_who_waits_goes_by_priority_and_then_by_arrival(
    bundle: Path, gate: Gate, tmp_path: Path
) -> None:
    file = tmp_path / "trace.json"
    with Engine(bundle, device=gate) as engine, engine.trace(file):
        full = [engine.submit(TEXT, **LONG) for _ in range(7)]
        for generation in full:
            next(generation)
        gate.close()
        gate.wait()
        waiting = [
            engine.submit(f"{priority} {i}", priority=priority, max_tokens=3, ignore_eos=True)
            for i, priority in enumerate((5, 0, -3, 0, -3))
        ]
        gate.open()
        for generation in waiting:
            generation.result()
    begun = [
        int(event["id"])
        for event in json.loads(file.read_text())["traceEvents"]
        if event.get("cat") == "request" and (event["ph"], event["name"]) == ("b", "prefill")
    ]
    assert begun[7:] == [9, 11, 8, 10, 7]


def test_more_than_may_wait_are_refused_at_once(gated: Engine, gate: Gate) -> None:
    full = [gated.submit(TEXT, **LONG) for _ in range(8)]
    for generation in full:
        next(generation)
    gate.close()
    gate.wait()
    waiting = [gated.submit(TEXT, max_tokens=4, ignore_eos=True) for _ in range(3)]

    def ask(_: int) -> str:
        with pytest.raises(EngineError, match="waiting already") as caught:
            gated.submit(TEXT, max_tokens=4)
        return caught.value.code

    # The gate is closed: who is told so has not waited.
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4), timeout=PATIENCE)) == ["engine.busy"] * 4
    assert ask(0) == "engine.busy"
    gate.open()
    assert [generation.result().usage.completion_tokens for generation in waiting] == [4] * 3
    for generation in full:
        generation.close()
    assert gated.generate(TEXT, max_tokens=4)


def test_free_slots_are_as_good_as_places_to_wait(gated: Engine) -> None:
    assert len(gated.choices(TEXT, n=11, max_tokens=2)) == 11
    with pytest.raises(EngineError, match="no room for 12 more"):
        gated.choices(TEXT, n=12, max_tokens=2)


def test_a_list_of_more_prompts_than_may_wait_goes_through(gated: Engine, engine: Engine) -> None:
    prompts = [f"{i} apples" for i in range(20)]
    found = gated.generate(prompts, max_tokens=4, temperature=0)
    expected = engine.generate(prompts, max_tokens=4, temperature=0)
    assert [c.token_ids for c in found] == [c.token_ids for c in expected]


def test_a_list_of_which_one_cannot_be_is_not_begun(engine: Engine) -> None:
    before = engine.metrics()["prompt_tokens_total"]
    with pytest.raises(InputError):
        engine.generate(["fine", "x" * 999], max_tokens=200)
    assert engine.metrics()["prompt_tokens_total"] == before


def test_another_thread_may_cancel(gated: Engine, gate: Gate) -> None:
    generation = gated.submit(TEXT, **LONG)
    first = next(generation)
    gate.close()
    Thread(target=generation.cancel).start()
    sleep(0.02)
    gate.open()
    completion = generation.result()
    assert completion.finish_reason == "cancelled"
    assert completion.token_ids[: len(first.token_ids)] == first.token_ids


def test_a_request_that_waits_is_cancelled_without_running(gated: Engine, gate: Gate) -> None:
    gate.close()
    running = gated.submit(TEXT, max_tokens=2)
    gate.wait()
    waiting = gated.submit(TEXT, **LONG)
    waiting.cancel()
    waiting.cancel()
    gate.open()
    assert waiting.result().finish_reason == "cancelled"
    assert waiting.result().usage.completion_tokens == 0
    assert running.result().finish_reason in ("length", "stop")


def test_the_end_of_a_block_cancels(engine: Engine) -> None:
    with engine.submit(TEXT, **LONG) as generation:
        next(generation)
    assert generation.done
    assert generation.completions()[0].finish_reason in ("cancelled", "length")


@pytest.mark.parametrize("read", [0, 1])
def test_a_dropped_handle_cancels(gated: Engine, gate: Gate, read: int) -> None:
    before = cancelled(gated)
    generation = gated.submit(TEXT, **LONG)
    for _ in range(read):
        next(generation)
    gate.close()
    gate.wait()
    del generation
    gc.collect()
    gate.open()
    gated.generate("A model", max_tokens=2)
    assert cancelled(gated) == before + 1


def test_a_completion_is_not_known_before_the_end(gated: Engine, gate: Gate) -> None:
    gate.close()
    generation = gated.submit(TEXT, max_tokens=2)
    assert not generation.done
    with pytest.raises(InputError, match="not known before") as caught:
        generation.completions()
    assert caught.value.code == "input.stream"
    gate.open()
    assert generation.result().usage.completion_tokens == 2


def test_an_interrupt_cancels_what_is_waited_for(
    gated: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(generation: Generation) -> Piece:
        raise KeyboardInterrupt

    before = cancelled(gated)
    with monkeypatch.context() as patch:
        patch.setattr(Generation, "__next__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gated.generate(TEXT, **LONG)
        with pytest.raises(KeyboardInterrupt):
            gated.generate([TEXT, TEXT], **LONG)
    gated.generate("A model", max_tokens=2)
    assert cancelled(gated) == before + 3


def test_scores_come_while_others_run(engine: Engine) -> None:
    ids = engine.tokenizer.encode(TEXT)
    alone = engine.score(ids)
    with engine.submit(TEXT * 3, **LONG) as generation:
        next(generation)
        beside = engine.score(ids)
    np.testing.assert_array_equal(alone, beside)
