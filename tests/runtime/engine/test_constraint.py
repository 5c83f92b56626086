"""Answers that must follow a constraint: alone, beside others, and with all else that is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.engine.constraint import Guide, Mask
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.abi import mask_words
from tests.runtime.engine.toy_bundle import Bounds
from tests.runtime.engine.toy_constraint import CLOSED, FORCED, FREE, ROOMS, Maze
from tests.runtime.engine.toy_model import EOS, VOCAB, mix
from tests.runtime.engine.world import Setting, World

PROMPT = (5, 6, 7, 8, 9, 10)
GREEDY = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
SEEDED = SamplingParams(temperature=1.5, seed=7, max_tokens=24, ignore_eos=True)


@dataclass(frozen=True)
class Plain(Maze):
    """A maze whose tokens are drawn where they are forced, too."""

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        del state
        return ()


def maze_with(kind: int, least: int) -> Maze:
    """One with many rooms of a kind."""
    mazes = (Maze(seed) for seed in range(1000))
    return next(m for m in mazes if [m.kind(room) for room in range(ROOMS)].count(kind) >= least)


def answers(
    folder: Path, requests: list[Request], *, agrees: bool = True, drafter: str = "none"
) -> tuple[list[tuple[int, ...]], World]:
    """What requests that arrive together give; the world judges each of them by itself."""
    world = World(Setting(Bounds(pages=40, rows=32, agrees=agrees), drafter=drafter), folder)
    for request in requests:
        world.ask(request)
    world.finish()
    return [asked.sequence.completion().token_ids for asked in world.asked], world


@pytest.mark.parametrize("agrees", [False, True])
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_constrained_and_free_answers_are_the_same_together_as_alone(
    params: SamplingParams, agrees: bool, tmp_path: Path
) -> None:
    requests = [
        Request((*PROMPT, i), params, constraint=Maze(i) if i % 2 else None) for i in range(4)
    ]
    alone = [answers(tmp_path, [request], agrees=agrees)[0][0] for request in requests]
    assert answers(tmp_path, requests, agrees=agrees)[0] == alone


@pytest.mark.parametrize("agrees", [False, True])
def test_tokens_that_must_come_take_no_steps_of_their_own(agrees: bool, tmp_path: Path) -> None:
    maze = maze_with(FORCED, 6)
    step_by_step, slow = answers(
        tmp_path, [Request(PROMPT, GREEDY, constraint=Plain(maze.seed))], agrees=agrees
    )
    at_once, fast = answers(tmp_path, [Request(PROMPT, GREEDY, constraint=maze)], agrees=agrees)
    assert at_once == step_by_step
    assert fast.steps < slow.steps - 3


def test_tokens_that_must_come_are_drawn_where_their_probabilities_are_asked_for(
    tmp_path: Path,
) -> None:
    maze = maze_with(FORCED, 6)
    requests = [
        Request(PROMPT, replace(SEEDED, logprobs=logprobs), constraint=maze)
        for logprobs in (False, True)
    ]
    found, world = answers(tmp_path, requests)
    assert found[0] == found[1]
    sequence = world.asked[1].sequence
    assert len(sequence.logprobs) == len(sequence.tokens) == SEEDED.max_tokens


def test_tokens_that_must_come_may_be_spelled_in_no_other_way() -> None:
    maze = maze_with(FORCED, 6)
    start = next(room for room in range(ROOMS) if len(maze.forced_tokens(room)) > 1)
    guide = Guide(replace(maze, start=start))
    guide.draw(guide.forced)
    for token in guide.due:
        assert guide.due
        assert not guide.free
        assert guide.allowed([token]) == 0
        [mask] = guide.masks(2, EOS)
        assert mask is not None
        assert np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")) == [token]
        assert guide.follow(token)
    assert not guide.due


@pytest.mark.parametrize("drafter", ["lookup", "oracle"])
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_drafts_change_no_token(params: SamplingParams, drafter: str, tmp_path: Path) -> None:
    requests = [Request((*PROMPT, i), params, constraint=Maze(i)) for i in range(3)]
    assert answers(tmp_path, requests, drafter=drafter)[0] == answers(tmp_path, requests)[0]


def test_drafts_are_cut_where_they_may_not_come() -> None:
    maze = maze_with(FORCED, 6)
    start = next(room for room in range(ROOMS) if len(maze.forced_tokens(room)) > 1)
    guide = Guide(replace(maze, start=start))
    forced = guide.forced
    wrong = next(token for token in range(20, 60) if token != forced[1])
    assert guide.allowed([forced[0], wrong, 9]) == 0  # what must come is not drafted
    plain = Guide(Plain(maze.seed, start=start))
    assert plain.allowed([forced[0], wrong, 9]) == 1
    assert plain.allowed(forced) == len(forced)
    assert plain.allowed([]) == 0


class Triggered(Maze):
    """Any token may come, but after one of some the next two are of few."""

    def tokens(self, state: int) -> frozenset[int]:
        return frozenset(range(VOCAB) if state == 0 else range(20, 24))

    def advance(self, state: int, token: int) -> int | None:
        if token not in self.tokens(state):
            return None
        return int(token % 16 == 5) if state == 0 else (state + 1) % 3

    def kind(self, state: int) -> int:
        return FREE if state == 0 else CLOSED


@pytest.mark.parametrize("more", [{}, {"presence_penalty": 0.75, "repetition_penalty": 1.25}])
@pytest.mark.parametrize("seed", range(4))
def test_bursts_are_long_where_any_token_may_come_and_cut_where_not(
    seed: int, more: dict[str, float], tmp_path: Path
) -> None:
    params = replace(SEEDED, max_tokens=60, seed=seed, **more)
    [tokens], world = answers(tmp_path, [Request(PROMPT, params, constraint=Triggered(0))])
    bursts = [k for plan, k in world.program.calls if plan.startswith("decode")]
    assert len(tokens) == 60
    assert max(bursts) > 1
    assert any(plan == "forward" for plan, _ in world.program.calls)


class Stringy(Triggered):
    """Of the tokens half may come, but after one of some the next two are of few."""

    def tokens(self, state: int) -> frozenset[int]:
        return frozenset(range(10, 40) if state == 0 else range(20, 24))

    def kind(self, state: int) -> int:
        return CLOSED


@pytest.mark.parametrize("more", [{}, {"presence_penalty": 0.75, "repetition_penalty": 1.25}])
@pytest.mark.parametrize("seed", range(4))
def test_bursts_are_long_under_a_mask_that_stays_and_change_no_token(
    seed: int, more: dict[str, float], tmp_path: Path
) -> None:
    params = replace(SEEDED, max_tokens=60, seed=seed, **more)
    seen = replace(params, stop=("never",))  # where the host has to see every token
    found: list[tuple[int, ...]] = []
    longest: list[int] = []
    for one in (params, seen):
        requests = [Request((*PROMPT, i), one, constraint=Stringy(0)) for i in range(2)]
        tokens, world = answers(tmp_path, requests)
        found += tokens
        bursts = [k for plan, k in world.program.calls if plan.startswith("decode")]
        longest.append(max(bursts, default=0))
    assert found[:2] == found[2:]
    assert longest[0] > 1 >= longest[1]


def test_a_mask_that_comes_back_is_the_same_and_as_steady_as_it_was() -> None:
    guide = Guide(Stringy(0))
    words = mask_words(VOCAB)
    [first] = guide.masks(words, EOS)
    for token in (11, 12, 13):
        assert guide.follow(token)
        assert guide.goes_on(EOS)
    assert guide.steady == 3
    assert guide.follow(21)
    assert not guide.goes_on(EOS)  # 21 leads to where few may come
    assert guide.steady == 0
    for _ in range(2):
        guide.masks(words, EOS)
        assert guide.follow(20)
    [again] = guide.masks(words, EOS)
    assert again is first
    assert guide.steady == 3


def test_an_answer_ends_where_nothing_may_follow_and_draws_no_end_token(tmp_path: Path) -> None:
    maze = next(
        m
        for m in (Maze(seed, last=3) for seed in range(1000))
        if 3 < len(answers(tmp_path, [Request(PROMPT, GREEDY, constraint=m)])[0][0]) < 20
    )
    [tokens], world = answers(tmp_path, [Request(PROMPT, GREEDY, constraint=maze)])
    assert world.asked[0].sequence.finish_reason == "stop"
    room = maze.start
    for token in tokens:
        following = maze.advance(room, token)
        assert following is not None
        room = following
    assert maze.must_end(room)


def test_an_answer_that_may_not_begin_has_ended(tmp_path: Path) -> None:
    requests = [Request(PROMPT, GREEDY, constraint=Maze(1, last=0)), Request(PROMPT, GREEDY)]
    found, world = answers(tmp_path, requests)
    assert found[0] == ()
    assert [asked.sequence.finish_reason for asked in world.asked] == ["stop", "length"]


def test_end_tokens_come_only_where_an_answer_may_end(tmp_path: Path) -> None:
    params = SamplingParams(temperature=1.5, max_tokens=60)
    requests = [
        Request((*PROMPT, i), replace(params, seed=i), constraint=Maze(i)) for i in range(12)
    ]
    ended = 0
    for tokens, request in zip(answers(tmp_path, requests)[0], requests, strict=True):
        maze = request.constraint
        assert isinstance(maze, Maze)
        room: int | None = maze.start
        for token in tokens:
            assert room is not None
            if token in EOS:
                assert maze.may_end(room)
                ended += 1
            room = maze.advance(room, token)
    assert ended


def test_choices_follow_their_constraint_each_for_itself(tmp_path: Path) -> None:
    request = Request(PROMPT, replace(SEEDED, n=3), constraint=Maze(4))
    found, _ = answers(tmp_path, [request])
    assert len(found) == 3
    assert len(set(found)) > 1


def test_an_interrupted_answer_goes_on_where_it_was(tmp_path: Path) -> None:
    request = Request(PROMPT, GREEDY, constraint=maze_with(FORCED, 6))
    [expected], _ = answers(tmp_path, [request])
    world = World(Setting(Bounds(pages=40)), tmp_path)
    world.ask(request)
    for _ in range(4):
        world.step()
        for sequence in list(world.scheduler.running):
            world.scheduler.preempt(sequence)
    world.finish()
    assert world.asked[0].sequence.completion().token_ids == expected


def test_a_constraint_that_fails_ends_its_own_request(tmp_path: Path) -> None:
    broken = next(
        m
        for m in (Maze(seed, broken=room) for seed in range(50) for room in range(1, ROOMS))
        if answers(tmp_path, [Request(PROMPT, GREEDY, constraint=m)])[1].asked[0].sequence.failure
    )
    requests = [Request(PROMPT, GREEDY), Request(PROMPT, GREEDY, constraint=broken)]
    _, world = answers(tmp_path, requests)
    free, failed = (asked.sequence for asked in world.asked)
    assert free.finish_reason == "length"
    assert failed.failure is not None
    assert failed.failure.code == "engine.constraint"
    assert f"room {broken.broken} is broken" in str(failed.failure)


class _Stuck(Maze):
    """Nothing leads on from any room."""

    def mask(self, state: int) -> Mask:
        del state
        return np.zeros(2, np.uint32)

    def may_end(self, state: int) -> bool:
        del state
        return False

    def free(self, state: int) -> bool:
        del state
        return False


def test_an_answer_that_no_token_goes_on_with_is_refused() -> None:
    with pytest.raises(EdgewiseError, match="No token of this model") as error:
        Guide(_Stuck(mix(1, 1))).masks(2, EOS)
    assert error.value.code == "constraint.stuck"


def test_an_answer_that_is_to_be_longer_ends_where_it_cannot_go_on() -> None:
    maze = Maze(
        0, start=next(r for r in range(ROOMS) if Maze(0).may_end(r) and not Maze(0).free(r))
    )
    [long], [short] = (Guide(maze).masks(2, EOS, short=short) for short in (False, True))
    assert long is not None
    assert short is not None
    assert [bool(long[0] >> token & 1) for token in EOS] == [True, True]
    assert [bool(short[0] >> token & 1) for token in EOS] == [False, False]
