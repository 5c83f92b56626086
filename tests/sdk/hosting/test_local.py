"""A model in this process: what it says of a request is what its engine does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine, Engine
from edgewise.deltas import Arguments, CallBegins, CallEnds, Reasoning
from edgewise.hosting.base import Ask, Call, Said
from edgewise.hosting.local import LocalModel
from edgewise_runtime.errors import EngineError, InputError
from tests.sdk.hosting.asking import ADD, LONG, MESSAGES, TEXT, content, ended, events
from tests.sdk.test_tool_calls import CALL, ENDS, QUESTION

Scenario = Callable[[LocalModel, AsyncEngine], Coroutine[Any, Any, None]]


def play(bundle: Path, scenario: Scenario, *, apart_s: float = 0.0) -> None:
    """Run a scenario with a model of its own."""

    async def run() -> None:
        engine = await AsyncEngine.load(bundle)
        model = LocalModel("tiny", engine, apart_s=apart_s)
        try:
            await asyncio.wait_for(scenario(model, engine), 60)
        finally:
            await model.close()
            await model.close()

    asyncio.run(run())


def test_a_prompt_and_a_conversation_are_answered_as_the_engine_does(
    bundle: Path, engine: Engine
) -> None:
    options: dict[str, Any] = {"max_tokens": 9, "seed": 4, "ignore_eos": True, "n": 2}
    written = engine.choices(TEXT, **options)
    chatted = engine.chat(MESSAGES, **{**options, "n": None})

    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        found = await events(model, Ask(prompt=TEXT, options=options))
        last = ended(found)
        assert found[-2:] == last
        assert [one.index for one in last] == [0, 1]
        for one, choice in zip(last, written, strict=True):
            assert (one.text, one.token_ids, one.usage.completion_tokens, one.seed) == (
                choice.text,
                choice.token_ids,
                9,
                4,
            )
            assert one.finish_reason == "length"
            assert content(found, one.index) == one.text
            said = [e for e in found if isinstance(e, Said) and e.index == one.index]
            assert sum((e.token_ids for e in said), ()) == one.token_ids
        (one,) = ended(
            await events(model, Ask(messages=MESSAGES, options={**options, "n": 1})),
        )
        assert one.text == chatted.text
        ids = engine.tokenizer.encode(TEXT)
        (same,) = ended(await events(model, Ask(prompt=ids, options={**options, "n": 1})))
        assert same.text == written[0].text

    play(bundle, scenario)


def test_calls_and_thoughts_come_apart_from_what_is_said(calling: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        text = f"Hm.</think>Wait.\n{CALL}"
        begun = engine.tokenizer.encode(text, add_special_tokens=False)
        biased = {str(token): bias for token, bias in ENDS["logit_bias"].items()}
        options = {**ENDS, "logit_bias": biased, "begun": begun}
        ask = Ask(
            messages=QUESTION, tools=[ADD], variables={"enable_thinking": True}, options=options
        )
        (one,) = ended(await events(model, ask))
        assert one.reasoning == "Hm."
        assert one.text.strip() == "Wait."
        (call,) = one.calls
        assert call == Call(call.id, "add", '{"x": 1, "y": 2}')
        assert one.finish_reason == "tool_calls"

    play(calling, scenario)


def test_a_forced_call_comes_as_deltas_with_the_id_that_the_end_has(calling: Path) -> None:
    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        ask = Ask(
            messages=QUESTION,
            tools=[{**ADD, "function": {"name": "now"}}],
            options={
                "tool_choice": {"type": "function", "function": {"name": "now"}},
                "reasoning": False,
            },
        )
        found = await events(model, ask)
        deltas = [delta for e in found if isinstance(e, Said) for delta in e.deltas]
        (begins,) = [delta for delta in deltas if isinstance(delta, CallBegins)]
        arguments = "".join(delta.text for delta in deltas if isinstance(delta, Arguments))
        assert any(isinstance(delta, CallEnds) for delta in deltas)
        assert not any(isinstance(delta, Reasoning) for delta in deltas)
        (one,) = ended(found)
        assert one.calls == (Call(begins.id, "now", arguments),)

    play(calling, scenario)


def test_tokens_have_text_bytes_and_logprobs_where_they_are_asked_for(bundle: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        options = {"max_tokens": 6, "ignore_eos": True, "logprobs": True, "top_logprobs": 3}
        found = await events(model, Ask(prompt=TEXT, options=options))
        (one,) = ended(found)
        said = [token for e in found if isinstance(e, Said) for token in e.tokens]
        assert tuple(said) == one.tokens
        assert tuple(token.id for token in said) == one.token_ids
        for token in said:
            assert token.text == token.data.decode(errors="replace")
            assert token.logprob <= 0
            assert len(token.top) == 3
        assert b"".join(token.data for token in said).decode(errors="replace") == (
            engine.tokenizer.decode(one.token_ids)
        )

    play(bundle, scenario)


def test_a_special_token_is_written_out(bundle: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        (end, *_) = engine.model.eos
        options = {"max_tokens": 2, "logprobs": True, "logit_bias": {str(end): 10_000}}
        (one,) = ended(await events(model, Ask(prompt=TEXT, options=options)))
        assert [token.text for token in one.tokens] == [engine.tokenizer.token_of(end)]
        assert model.facts.end_tokens[0] == one.tokens[0].text
        assert one.text == ""

    play(bundle, scenario)


def test_the_stop_string_that_ended_it_is_told(bundle: Path, engine: Engine) -> None:
    whole = engine.generate(TEXT, max_tokens=20, ignore_eos=True, temperature=0).text

    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        options = {"max_tokens": 20, "ignore_eos": True, "temperature": 0}
        stop = whole[6:9]
        asked = Ask(prompt=TEXT, options={**options, "stop": ["\0never", stop]})
        (one,) = ended(await events(model, asked))
        assert (one.stop, one.finish_reason) == (stop, "stop")
        assert one.text == whole[: whole.index(stop)]
        (other,) = ended(
            await events(model, Ask(prompt=TEXT, options={**options, "stop": "\0never"}))
        )
        assert (other.stop, other.finish_reason) == (None, "length")

    play(bundle, scenario)


def test_closing_the_generator_ends_the_request_and_frees_its_pages(bundle: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        async with aclosing(model.ask(Ask(prompt=TEXT, options=LONG))) as running:
            await anext(running)
        # Once a later one is through, the step in which the first one ran is over.
        await events(model, Ask(prompt="1", options={"max_tokens": 1}))
        await engine.forget()
        metrics = await model.metrics()
        assert metrics["request_success_total"]["cancelled"] == 1
        assert metrics["kv_pages_used"] == 0
        assert metrics["num_requests_running"] == 0

    play(bundle, scenario)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (Ask(), "input.prompt"),
        (Ask(prompt=TEXT, messages=MESSAGES), "input.prompt"),
        (Ask(prompt={"text": TEXT}), "input.prompt"),  # type: ignore[arg-type]
        (Ask(prompt=[1, -1]), "input.token"),
        (Ask(prompt=TEXT, variables={"x": 1}), "input.option"),
        (Ask(prompt=TEXT, options={"tools": []}), "input.option"),
        (Ask(prompt=TEXT, options={"prompt": "x"}), "input.option"),
        (Ask(prompt=TEXT, options={"sampling": None}), "input.option"),
        (Ask(prompt=TEXT, options={"logit_bias": {"x": 1}}), "input.sampling"),
        (Ask(prompt=TEXT, options={"temperature": "hot"}), "input.sampling"),
        (Ask(messages=[]), "input.messages"),
        (Ask(messages=MESSAGES, tools=[{"type": "function"}]), "input.tools"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_said(
    bundle: Path, ask: Ask, code: str
) -> None:
    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        with pytest.raises(InputError) as caught:
            await anext(model.ask(ask))
        assert caught.value.code == code

    play(bundle, scenario)


def test_prompts_are_counted_and_shown_as_they_are_asked(calling: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        for ask in (
            Ask(messages=MESSAGES),
            Ask(messages=MESSAGES, tools=[ADD]),
            Ask(messages=MESSAGES, tools=[ADD], options={"tool_choice": "none"}),
            Ask(messages=MESSAGES, variables={"enable_thinking": True}),
            Ask(prompt=TEXT),
            Ask(prompt=[5, 6, 7]),
        ):
            options = {**ask.options, "max_tokens": 0}
            empty = Ask(
                messages=ask.messages,
                prompt=ask.prompt,
                tools=ask.tools,
                variables=ask.variables,
                options=options,
            )
            (one,) = ended(await events(model, empty))
            assert await model.count(ask) == one.usage.prompt_tokens
        assert "add" in await model.render(Ask(messages=MESSAGES, tools=[ADD]))
        hidden = Ask(messages=MESSAGES, tools=[ADD], options={"tool_choice": "none"})
        assert await model.render(hidden) == engine.render(MESSAGES)
        with pytest.raises(InputError):
            await model.render(Ask(prompt=TEXT))

    play(calling, scenario)


def test_a_conversation_longer_than_the_context_is_counted(bundle: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        long = [{"role": "user", "content": "word " * 5000}]
        assert await model.count(Ask(messages=long)) > engine.context

    play(bundle, scenario)


def test_texts_become_tokens_and_tokens_texts(bundle: Path) -> None:
    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        encode = engine.tokenizer.encode
        for special in (True, False):
            ids = await model.tokenize(TEXT, special=special)
            assert ids == encode(TEXT, add_special_tokens=special)
        assert await model.detokenize(ids) == TEXT
        with pytest.raises(InputError):
            await model.detokenize([-1])

    play(bundle, scenario)


def test_it_says_what_it_is(bundle: Path, calling: Path) -> None:
    async def plain(model: LocalModel, engine: AsyncEngine) -> None:
        facts = model.facts
        assert (facts.name, facts.family, facts.quant) == ("tiny", "llama", "q4")
        assert (facts.context, facts.vocab) == (engine.context, engine.model.vocab)
        assert (facts.program, facts.device) == (engine.program, engine.device)
        assert facts.capabilities == ("completion", "chat", "embedding")
        assert facts.hidden == engine.model.hidden
        assert facts.bytes == engine.memory()["param"]
        # Four bits and a sixteenth of a byte a weight, but for the float32 ones.
        assert facts.bytes / 4 < facts.parameters < facts.bytes * 2
        assert facts.template

    async def caller(model: LocalModel, engine: AsyncEngine) -> None:
        expected = ("completion", "chat", "tools", "thinking", "embedding")
        assert model.facts.capabilities == expected

    play(bundle, plain)
    play(calling, caller)


def test_what_is_asked_of_a_closed_model_is_refused(bundle: Path) -> None:
    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        await model.close()
        with pytest.raises(EngineError) as caught:
            await events(model, Ask(prompt=TEXT))
        assert caught.value.code == "engine.closed"

    play(bundle, scenario)


@pytest.mark.parametrize("n", [1, 2])
def test_steps_that_are_held_back_are_told_as_one_at_the_end(bundle: Path, n: int) -> None:
    options: dict[str, Any] = {"max_tokens": 60, "seed": 4, "ignore_eos": True, "n": n}

    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        found = await events(model, Ask(prompt=TEXT, options=options))
        whole = await engine.choices(TEXT, **options)
        said = [event for event in found if isinstance(event, Said)]
        # The first that comes, and what each end lets go of all choices.
        assert n < len(said) <= 1 + n * n
        for choice in whole:
            ids = [i for event in said if event.index == choice.index for i in event.token_ids]
            assert tuple(ids) == choice.token_ids
            assert content(found, choice.index) == choice.text
        assert [one.text for one in ended(found)] == [choice.text for choice in whole]

    play(bundle, scenario, apart_s=1e6)


def test_each_step_with_log_probabilities_is_told(bundle: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 12, "ignore_eos": True, "logprobs": True}

    async def scenario(model: LocalModel, _: AsyncEngine) -> None:
        found = await events(model, Ask(prompt=TEXT, options=options))
        said = [event for event in found if isinstance(event, Said)]
        assert [len(event.tokens) for event in said if event.token_ids] == [1] * 12

    play(bundle, scenario, apart_s=1e6)


def test_an_error_comes_after_the_steps_that_were_held_back(bundle: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 200, "ignore_eos": True}

    async def scenario(model: LocalModel, engine: AsyncEngine) -> None:
        async with aclosing(model.ask(Ask(prompt=TEXT, options=options))) as running:
            first = await anext(running)
            assert isinstance(first, Said)
            await engine.close()
            (last,) = [event async for event in running if not isinstance(event, Said)]
            assert last.finish_reason in ("cancelled", "length")

    play(bundle, scenario, apart_s=1e6)
