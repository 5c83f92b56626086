"""BrowserEngine over the socket, with tabs that say what a test wants (browsers: tests/browser)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from edgewise import BrowserEngine, EngineError, InputError, SamplingOptions, UnsupportedError
from tests.processes import eventually
from tests.sdk.scripted_tab import answering, lending, lent, opened

CASE = "llama-gqa2-tied-linear"
MESSAGES = [{"role": "user", "content": "Hello"}]
SOON = 0.05
"""Seconds between beats, where a tab is to be found silent."""


@pytest.fixture(scope="module")
def bundle(bundles: Callable[..., Path]) -> Path:
    return bundles(CASE, targets=("cpu", "webgpu"))


@pytest.fixture(scope="module")
def engine(bundle: Path) -> Iterator[BrowserEngine]:
    with BrowserEngine(bundle) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _without_tabs(engine: BrowserEngine) -> Iterator[None]:
    yield
    assert eventually(lambda: not engine.tabs)


def greeting(_: dict[str, Any]) -> list[str]:
    return ["Good", " day", "."]


def test_a_tab_answers_what_python_asks(engine: BrowserEngine) -> None:
    with answering(engine.url, greeting):
        engine.wait(timeout_s=60)
        answer = engine.chat(MESSAGES, max_tokens=5)
    assert (answer.text, answer.finish_reason, answer.seed) == ("Good day.", "stop", 7)
    assert (answer.usage.total_tokens, answer.token_ids) == (5, (5, 6))


def test_pieces_come_as_the_tab_says_them(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, engine.generate("Once", stream=True) as stream:
        run = tab.next("run")["run"]
        tab.say(run, "Good")
        assert next(stream) == "Good"
        tab.say(run, " day")
        tab.end(run, "Good day")
        assert list(stream) == [" day"]
        assert stream.completion.text == "Good day"


def test_what_is_asked_comes_as_json_of_the_protocol(engine: BrowserEngine) -> None:
    class Point(BaseModel):
        x: int

    def add(x: int, y: int) -> int:
        """Add two numbers."""
        return x + y

    with lending(engine.url, slots=4) as tab, ThreadPoolExecutor(1) as pool:
        sampling = SamplingOptions(temperature=0.5, max_tokens=9)
        shaped = pool.submit(
            engine.chat, MESSAGES, response_format=Point, sampling=sampling, seed=(1 << 64) - 1
        )
        asked = tab.next("run")
        tab.end(asked["run"], '{"x": 3}')
        called = pool.submit(engine.chat, MESSAGES, tools=[add], tool_choice=add, reasoning=40)
        tools = tab.next("run")
        call = {"id": "a", "name": "add", "arguments": '{"x": 1, "y": 2}'}
        tab.end(tools["run"], reason="tool_calls", calls=[call])
    assert asked["messages"] == MESSAGES
    options = asked["options"]
    assert options["response_format"]["json_schema"]["schema"]["properties"].keys() == {"x"}
    assert {**options, "response_format": 0} == {
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": str((1 << 64) - 1),
        "response_format": 0,
    }
    assert shaped.result().parsed == Point(x=3)
    assert tools["tools"][0]["function"]["name"] == "add"
    named = {"type": "function", "function": {"name": "add"}}
    assert tools["options"] == {"tool_choice": named, "reasoning": {"budget": 40}}
    assert [one.call() for one in called.result().tool_calls] == [3]


def test_several_prompts_are_balanced_over_tabs_by_their_slots(engine: BrowserEngine) -> None:
    with (
        lending(engine.url, slots=1) as small,
        lending(engine.url, slots=3) as large,
        ThreadPoolExecutor(1) as pool,
    ):
        answers = pool.submit(engine.generate, ["a", "b", "c", "d", "e"])
        given = {tab.next("run")["run"]: tab for tab in (small, large, large, large)}
        assert sorted(one.running for one in engine.tabs) == [1, 3]
        run, tab = next(iter(given.items()))
        tab.end(run, "first")
        fifth = small.next("run")["run"]
        for run, tab in [*list(given.items())[1:], (fifth, small)]:
            tab.end(run, "then")
        assert [one.text for one in answers.result()] == ["first", "then", "then", "then", "then"]
        assert sorted(one.served for one in engine.tabs) == [2, 3]


def test_a_stream_that_is_left_is_halted_and_its_slot_is_free(engine: BrowserEngine) -> None:
    with lending(engine.url, slots=1) as tab:
        stream = engine.generate("Once", stream=True)
        run = tab.next("run")["run"]
        tab.say(run, "Good")
        assert next(stream) == "Good"
        stream.close()
        assert tab.next("halt") == {"type": "halt", "run": run}
        tab.say(run, " day")  # it had been on its way
        tab.end(run, "Good day", reason="cancelled")
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(engine.generate, "Once")
            tab.end(tab.next("run")["run"], "anew")
        assert again.result().text == "anew"


def test_time_that_runs_out_ends_an_answer_with_what_there_is(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once", timeout_s=SOON)
        run = tab.next("run")
        assert "timeout_s" not in run["options"]
        tab.next("halt")
        tab.end(run["run"], "Go", reason="cancelled")
        assert (answer.result().text, answer.result().finish_reason) == ("Go", "timeout")


def test_an_error_of_the_tab_is_the_requests(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        run = tab.next("run")["run"]
        tab.send(type="failed", run=run, code="input.context", message="Too long.", remedy="Cut.")
        with pytest.raises(InputError, match="Too long") as caught:
            answer.result()
        assert caught.value.code == "input.context"


def test_a_tab_that_is_closed_ends_what_it_had_begun(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        tab.say(tab.next("run")["run"], "Good")
        tab.connection.close()
        with pytest.raises(EngineError) as caught:
            answer.result()
        assert caught.value.code == "tab.gone"


def test_what_a_lost_tab_had_not_begun_another_answers(engine: BrowserEngine) -> None:
    with lending(engine.url) as first, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        first.next("run")
        with answering(engine.url, greeting):
            first.connection.close()
            assert answer.result().text == "Good day."


def test_no_tab_is_an_error_that_says_what_to_open(engine: BrowserEngine) -> None:
    with pytest.raises(EngineError, match="lend") as caught:
        engine.generate("Once")
    assert caught.value.code == "tab.none"
    with pytest.raises(EngineError) as caught:
        engine.wait(timeout_s=0)
    assert caught.value.code == "tab.none"
    assert engine.url in caught.value.remedy


def test_a_tab_that_unlends_finishes_and_is_given_no_more(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        run = tab.next("run")["run"]
        tab.send(type="unlend")
        tab.end(run, "Good")
        assert answer.result().text == "Good"
        with pytest.raises(EngineError) as caught:
            engine.generate("Once")
        assert caught.value.code == "tab.none"


def test_a_tab_that_lives_and_ends_nothing_is_done_without(bundle: Path) -> None:
    with BrowserEngine(bundle, beat_s=SOON) as engine, lending(engine.url) as tab:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(engine.generate, "Once", timeout_s=SOON)
            tab.next("halt")
            assert tab.closed() == (4002, "tab.silent")  # its beats were answered
            with pytest.raises(EngineError, match="was to end") as caught:
                answer.result()
        assert caught.value.code == "tab.silent"


def test_a_token_that_the_model_has_not_is_not_taken(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        tab.end(tab.next("run")["run"], token_ids=[engine.model.vocab])
        with pytest.raises(EngineError, match="none of") as caught:
            answer.result()
        assert caught.value.code == "tab.wrong"


@pytest.mark.parametrize("beat_s", [0, -1, float("nan"), 3601])
def test_beats_are_apart_as_tabs_take_it(bundle: Path, beat_s: float) -> None:
    with pytest.raises(InputError, match="beat_s is") as caught:
        BrowserEngine(bundle, beat_s=beat_s)
    assert caught.value.code == "input.option"


def test_a_tab_that_answers_no_beat_is_done_without(bundle: Path) -> None:
    with BrowserEngine(bundle, beat_s=SOON) as engine, lending(engine.url) as tab:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(engine.generate, "Once")
            while (message := tab.next("run", "beat"))["type"] == "beat":
                tab.send(type="alive", beat=message["beat"])
            tab.say(message["run"], "Good")
            with pytest.raises(EngineError, match="beats") as caught:
                answer.result()
        assert caught.value.code == "tab.silent"
        beats = []
        while (message := tab.next("beat", "error"))["type"] == "beat":
            beats.append(message["beat"])
        assert message["code"] == "tab.silent"
        assert tab.closed() == (4002, "tab.silent")
        assert engine.tabs == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "said", "run": "r999", "deltas": []},
        {"type": "ended", "run": "r999", "choice": {}},
        {"type": "said", "run": "r1", "deltas": [{"type": "content"}]},
        {"type": "alive", "beat": 99},
        {"type": "shout"},
        {"type": "lend"},
    ],
    ids=str,
)
def test_a_tab_that_says_what_cannot_be_is_done_without(
    engine: BrowserEngine, wrong: dict[str, Any]
) -> None:
    with lending(engine.url) as tab, lending(engine.url) as other, ThreadPoolExecutor(1) as pool:
        answers = pool.submit(engine.generate, ["a", "b"])
        mine, theirs = tab.next("run")["run"], other.next("run")["run"]
        tab.say(mine, "Good")
        tab.send(**wrong)
        assert tab.closed()[0] == 4002
        other.end(theirs, "unharmed")
        with pytest.raises(EngineError) as caught:
            answers.result()
        assert caught.value.code != "tab.none"
        assert [one.served for one in engine.tabs] == [1]


def test_a_tab_cannot_speak_for_another(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, lending(engine.url) as other, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "a")
        assert eventually(lambda: any(one.running for one in engine.tabs))
        first = engine.tabs[0].running == 1
        asked, idle = (tab, other) if first else (other, tab)
        run = asked.next("run")["run"]
        idle.say(run, "lies")
        assert idle.closed() == (4002, "tab.wrong")
        asked.end(run, "truth")
        assert answer.result().text == "truth"


def test_more_pieces_than_a_context_holds_are_not_taken(engine: BrowserEngine) -> None:
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        run = tab.next("run")["run"]
        message = {"type": "pong"}
        while message["type"] == "pong":
            for _ in range(100):
                tab.say(run, "more")
            tab.send(type="ping")
            message = tab.next("pong", "error")
        assert message["code"] == "tab.wrong"
        with pytest.raises(EngineError, match="more pieces or text"):
            answer.result()


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"bundle": "0" * 64}, "tab.bundle"),
        ({"tokenizer": "0" * 64}, "tab.bundle"),
        ({"context": 1 << 24}, "tab.bundle"),
        ({"model": "another"}, "tab.model"),
    ],
)
def test_a_tab_with_something_else_is_refused(
    engine: BrowserEngine, other: dict[str, Any], code: str
) -> None:
    with opened(engine.url) as tab:
        tab.send(**lent(engine.url, **other))
        assert tab.next("error")["code"] == code
        assert engine.tabs == ()


def test_a_socket_that_lends_nothing_answers_nothing(engine: BrowserEngine) -> None:
    with opened(engine.url) as tab:
        tab.say("r1", "Good")
        assert tab.next("error")["code"] == "tab.wrong"


@pytest.mark.parametrize(
    "options", [{"logprobs": True}, {"cache_salt": "mine"}, {"logprobs": True, "top_logprobs": 2}]
)
def test_what_tabs_do_not_do_is_refused_by_name(
    engine: BrowserEngine, options: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedError, match=next(iter(options))) as caught:
        engine.generate("Once", **options)
    assert caught.value.code == "unsupported.tab"


def test_methods_that_tabs_do_not_have_say_so(engine: BrowserEngine) -> None:
    calls: list[Callable[[], object]] = [
        lambda: engine.score([1]),
        lambda: engine.embed("a"),
        lambda: engine.rerank("a", ["b"]),
        lambda: engine.pin("a"),
        lambda: engine.unpin("a"),
        engine.forget,
    ]
    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.code == "unsupported.tab"


def test_options_are_checked_before_a_tab_is_asked(engine: BrowserEngine) -> None:
    with pytest.raises(InputError, match="temperature"):
        engine.generate("Once", temperature=-1)
    with pytest.raises(InputError, match="one answer"):
        engine.generate(["a", "b"], stream=True)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="JSON"):
        engine.chat([{"role": "user", "content": "a", "score": float("nan")}])


def test_it_says_what_it_is_and_renders_prompts(engine: BrowserEngine) -> None:
    assert engine.name in repr(engine)
    assert engine.context == engine.model.context
    assert "Hello" in engine.render(MESSAGES)
    assert engine.tokenizer.decode(engine.tokenizer.encode("fox")) == "fox"


def test_only_this_machines_browsers_reach_it(bundle: Path) -> None:
    with pytest.raises(InputError) as caught:
        BrowserEngine(bundle, host="0.0.0.0")
    assert caught.value.code == "serve.host"


def test_closing_ends_what_runs(bundle: Path) -> None:
    engine = BrowserEngine(bundle)
    with lending(engine.url) as tab, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "Once")
        tab.say(tab.next("run")["run"], "Good")
        engine.close()
        engine.close()
        with pytest.raises(EngineError):
            answer.result()
