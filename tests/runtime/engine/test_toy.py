"""The toy program that the engine's tests run: right when used rightly, wrong or loud otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import StepBuffers
from edgewise_runtime.engine.table_rows import Line
from edgewise_runtime.errors import DeviceError
from tests.runtime.engine.toy import Failure, FaultError, ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer
from tests.runtime.engine.toy_model import VOCAB, answer, digest_of, mix, text_of

PROMPT = [5, 9, 2, 33, 60, 12, 7, 7, 41, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]
GREEDY = SamplingParams(temperature=0, ignore_eos=True, max_tokens=24)
SEEDED = SamplingParams(ignore_eos=True, seed=7, max_tokens=24)
BOUNDS = Bounds(pages=8, rows=32, batch=2, context=96)


class Driver:
    """One sequence on a program, in the plainest way."""

    def __init__(self, program: ToyProgram, pages: Sequence[int], params: SamplingParams) -> None:
        self.program = program
        self.pages = pages
        self.buffers = StepBuffers(program, ())
        self.buffers.sampling([(params, 7, 0)])

    def line(self, start: int, rows: int) -> Line:
        return Line(start, rows, self.pages, 1000)

    def prefill(self, tokens: Sequence[int], start: int, count: int) -> None:
        chunk = tokens[start : start + count]
        self.buffers.compute([self.line(start, count)], chunk, reach=start + count)
        self.program.run("embed")
        self.program.run("prefill" if count > 4 else "prefill_few")
        self.buffers.logit_rows([count - 1])

    def first(self, length: int) -> int:
        self.program.run("logits")
        self.buffers.draw([self.line(length, 1)])
        self.program.run("sample")
        return int(self.program.read("sampled")[0])

    def decode(self, token: int, length: int, k: int) -> list[int]:
        self.buffers.compute([self.line(length, 1)], [token], reach=length + k, logits=1)
        self.program.run("decode_one", k)
        return self.buffers.drawn(1)[0]

    def generate(self, prompt: Sequence[int], count: int, chunk: int = 32) -> list[int]:
        for start in range(0, len(prompt), chunk):
            self.prefill(prompt, start, min(chunk, len(prompt) - start))
        tokens = [self.first(len(prompt))]
        while len(tokens) < count:
            k = min(5, count - len(tokens))
            tokens += self.decode(tokens[-1], len(prompt) + len(tokens) - 1, k)
        return tokens


@pytest.mark.parametrize("chunk", [1, 7, 16, 32])
@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("params", [GREEDY, SamplingParams(ignore_eos=True, seed=7, max_tokens=24)])
def test_it_answers_what_is_computed_directly(
    chunk: int, agrees: bool, params: SamplingParams
) -> None:
    program = ToyProgram(Bounds(pages=8, rows=32, batch=2, context=96, agrees=agrees))
    tokens = Driver(program, [6, 1, 3], params).generate(PROMPT, 24, chunk)
    assert tuple(tokens) == answer(PROMPT, params, context=96).tokens
    assert len(set(tokens)) > 12
    written = [flag for page in (6, 1, 3) for flag in program.decoded(page)]
    assert sum(written) == (0 if agrees else 23)


@pytest.mark.parametrize("change", [{"seed": 8}, {"top_k": 3}, {"top_p": 0.5}, {"temperature": 2}])
def test_every_parameter_matters(change: dict[str, float]) -> None:
    params = {"ignore_eos": True, "seed": 7, "max_tokens": 24, "temperature": 1.0}
    plain = answer(PROMPT, SamplingParams(**params), context=96)
    assert plain != answer(PROMPT, SamplingParams(**(params | change)), context=96)
    assert plain != answer(PROMPT, SamplingParams(**params), context=96, number=1)


def test_an_answer_ends_like_a_request() -> None:
    whole = answer(PROMPT, GREEDY, context=96).tokens
    assert len(answer(PROMPT, GREEDY, context=25).tokens) == 5
    first = whole.index(whole[9])
    stopped = answer(PROMPT, replace(GREEDY, stop=(text_of([whole[9]]),)), context=96)
    assert stopped.tokens == whole[: first + 1]
    assert (stopped.text, stopped.finish_reason) == (text_of(whole[:first]), "stop")
    ended = answer(PROMPT, replace(GREEDY, stop_token_ids=(whole[9],)), context=96)
    assert ended == stopped
    ended = answer(PROMPT, SamplingParams(temperature=0), context=96, eos=[whole[9]])
    assert ended == stopped


@pytest.mark.parametrize(("pages", "fault"), [([0, 1, 8], "has pages"), ([0, 1, 1], "twice")])
def test_pages_that_cannot_be_are_a_fault(pages: list[int], fault: str) -> None:
    driver = Driver(ToyProgram(BOUNDS), pages, GREEDY)
    with pytest.raises(FaultError, match=fault):
        driver.generate(PROMPT * 2, 24)


def test_a_page_that_was_never_written_is_a_fault() -> None:
    driver = Driver(ToyProgram(BOUNDS), [0, 1], GREEDY)
    driver.prefill(PROMPT, 0, 17)
    driver.pages = [0, 2]
    with pytest.raises(FaultError, match="Position 16"):
        driver.decode(1, 17, 1)


def test_a_random_number_of_another_position_is_a_fault() -> None:
    driver = Driver(ToyProgram(BOUNDS), [0, 1], GREEDY)
    driver.prefill(PROMPT, 0, 17)
    with pytest.raises(FaultError, match="samples position 16"):
        driver.first(16)


def test_a_written_page_that_was_shared_is_a_fault() -> None:
    program = ToyProgram(BOUNDS)
    program.guard(lambda page: page != 3)
    driver = Driver(program, [2, 3], GREEDY)
    driver.prefill(PROMPT, 0, 16)
    with pytest.raises(FaultError, match="Page 3"):
        driver.prefill(PROMPT, 16, 4)
    with pytest.raises(FaultError, match="Page 3"):
        program.copy_page(2, 3)


def test_a_stale_page_gives_other_tokens() -> None:
    program = ToyProgram(BOUNDS)
    Driver(program, [0, 1, 2], GREEDY).generate(PROMPT[::-1], 24)
    driver = Driver(program, [0, 1, 2], GREEDY)
    driver.prefill(PROMPT, 16, 4)
    assert driver.first(20) != answer(PROMPT, GREEDY, context=96).tokens[0]


def test_pages_can_be_moved() -> None:
    program = ToyProgram(BOUNDS)
    Driver(program, [0, 1, 2], GREEDY).prefill(PROMPT, 0, 20)
    program.copy_page(0, 4)
    program.write_page(5, program.read_page(1))
    driver = Driver(program, [4, 5, 6], GREEDY)
    token = answer(PROMPT, GREEDY, context=96).tokens[0]
    assert driver.decode(token, 20, 8) == list(answer(PROMPT, GREEDY, context=96).tokens[1:9])
    assert len(program.read_page(0)) == program.page_bytes


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("pieces", [0, 1, 9])
@pytest.mark.parametrize("code", ["device.lost", "device.kernel"])
def test_it_fails_when_told_to(code: str, pieces: int, late: bool) -> None:
    program = ToyProgram(BOUNDS)
    driver = Driver(program, [0, 1, 2], GREEDY)
    program.fail(Failure(code, calls=2, pieces=pieces, late=late))
    with pytest.raises(DeviceError) as caught:
        driver.generate(PROMPT, 24)
    assert caught.value.code == code
    plans = [plan for plan, _ in program.calls]
    assert plans == ["embed", "prefill", *(["logits"] if late else [])]
    if code == "device.lost":
        with pytest.raises(DeviceError, match="lost"):
            program.read("table")
    else:
        assert driver.generate(PROMPT, 24) == list(answer(PROMPT, GREEDY, context=96).tokens)


def test_numbers_and_arrays_mix_alike() -> None:
    numbers = [0, 1, 5, (1 << 63) + 3, (1 << 64) - 1]
    mixed = mix(np.array(numbers, np.uint64), np.array(numbers[::-1], np.uint64))
    assert mixed.tolist() == [mix(a, b) for a, b in zip(numbers, numbers[::-1], strict=True)]
    assert digest_of(np.array([4, 6], np.uint64)).tolist() == [
        0,
        mix(4, 0),
        (mix(4, 0) + mix(6, 1)) % (1 << 64),
    ]


def test_every_token_is_a_character() -> None:
    stream = tokenizer().stream()
    assert stream.push(range(VOCAB)) + stream.finish() == text_of(range(VOCAB))
