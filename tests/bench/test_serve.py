"""Load on servers: who asks when, what is made of what clients saw, and how it is drawn."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve import arguments, chosen, loads, numbers, slo, summarized
from serving.client import Raw, Server, request, seen
from serving.figures import Seen, Slo, medians, quantile, ratios, summary
from serving.models import Contest
from serving.plot import OURS, lines_svg
from serving.report import PEER, as_json, plots, table
from serving.traffic import SHAPES, Turn, arrivals, sessions

SVG = "{http://www.w3.org/2000/svg}"
MODEL = Contest(Path("bundle"), None, 1024, 4096, ("q4",))


def answered(planned: float, first: float, ended: float, tokens: int) -> Seen:
    """A request of 10 tokens, half of them known, whose answer came in two pieces."""
    return Seen(planned, (first, ended), ended, tokens, 10, 5)


class TestTraffic:
    def test_the_same_seed_asks_the_same_and_another_shares_no_beginning(self) -> None:
        for shape in SHAPES.values():
            first, again, other = (
                sessions(shape.lengths, 6, 4096, seed) for seed in ("1", "1", "2")
            )
            assert first == again
            beginnings = {one.turns[0].prompt[:8] for one in first}
            assert beginnings.isdisjoint(one.turns[0].prompt[:8] for one in other)
            assert len(beginnings) == (1 if shape.lengths.shared else 6)

    def test_prompts_and_answers_are_as_long_as_their_shape_says(self) -> None:
        for shape in SHAPES.values():
            for session in sessions(shape.lengths, 6, 4096, "1"):
                assert len(session.turns) == shape.lengths.turns
                least, most = (shape.lengths.shared + own for own in shape.lengths.own)
                assert least <= len(session.turns[0].prompt) <= most
                for turn in session.turns:
                    assert shape.lengths.tokens[0] <= turn.tokens <= shape.lengths.tokens[1]
                    assert len(turn.prompt) + turn.tokens <= shape.lengths.longest

    def test_a_turn_of_an_agent_goes_on_with_the_prompt_before(self) -> None:
        for session in sessions(SHAPES["agent"].lengths, 3, 4096, "1"):
            for before, after in zip(session.turns, session.turns[1:], strict=False):
                assert after.prompt[: len(before.prompt)] == before.prompt
                assert len(after.prompt) > len(before.prompt)

    def test_a_vocabulary_without_plain_tokens_is_refused(self) -> None:
        with pytest.raises(ValueError, match="100 tokens"):
            sessions(SHAPES["short"].lengths, 1, 100, "1")

    def test_arrivals_come_as_often_as_they_should_from_a_seed(self) -> None:
        times = arrivals(4.0, 2000, "1")
        assert times == arrivals(4.0, 2000, "1") != arrivals(4.0, 2000, "2")
        assert times == sorted(times)
        assert times[-1] == pytest.approx(500, rel=0.1)

    def test_those_of_a_burst_arrive_at_once_and_as_many_in_all(self) -> None:
        times = arrivals(4.0, 2001, "1", burst=8)
        assert len(times) == 2001
        assert len(set(times)) == math.ceil(2001 / 8)
        assert times[-1] == pytest.approx(500, rel=0.2)


class TestFigures:
    def test_a_quantile_is_a_value_that_enough_are_not_above(self) -> None:
        values = [float(one) for one in range(1, 101)]
        assert [quantile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
        assert quantile([7.0], 0.5) == quantile([7.0], 0.99) == 7.0

    @given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
    def test_no_value_below_a_quantile_has_as_many(self, values: list[float], share: float) -> None:
        found = quantile(values, share)
        assert found in values
        assert sum(one <= found for one in values) >= share * len(values)
        assert sum(one < found for one in values) < share * len(values)

    @pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.5)])
    def test_there_is_no_quantile_of_nothing(self, values: list[float], share: float) -> None:
        with pytest.raises(ValueError, match="no quantile"):
            quantile(values, share)

    def test_time_counts_from_when_a_request_was_planned(self) -> None:
        one = answered(planned=1.0, first=3.0, ended=4.0, tokens=11)
        assert one.ttft == 2.0
        assert one.itl == pytest.approx(0.1)

    def test_what_failed_took_for_ever(self) -> None:
        failed = Seen(1.0, error="status 503")
        assert failed.ttft == failed.itl == math.inf
        assert not Slo(1e9, 1e9).met(failed)

    def test_a_load_is_summed_up_from_its_first_plan_to_its_last_end(self) -> None:
        load = [
            answered(planned=10.0, first=10.5, ended=11.5, tokens=11),
            answered(planned=11.0, first=14.0, ended=15.0, tokens=21),
            Seen(11.0, error="status 503"),
        ]
        found = summary(load, Slo(ttft=1.0, itl=0.2))
        assert (found["requests"], found["failed"], found["seconds"]) == (3, 1, 5)
        assert found["output_tok_s"] == pytest.approx(32 / 5)
        assert (found["ttft_p50_s"], found["ttft_p99_s"]) == (3.0, math.inf)
        assert (found["gap_p50_s"], found["prefix_hit"]) == (1.0, 0.5)
        assert found["goodput"] == pytest.approx(1 / 3)
        assert found["goodput_req_s"] == pytest.approx(1 / 5)

    def test_a_request_has_to_meet_both_limits(self) -> None:
        one = answered(planned=0.0, first=1.0, ended=2.0, tokens=11)
        met = [Slo(1.0, 0.1), Slo(0.9, 0.1), Slo(1.0, 0.09)]
        assert [limits.met(one) for limits in met] == [True, False, False]

    def test_medians_and_ratios_are_figure_by_figure(self) -> None:
        rounds = [{"output_tok_s": speed, "ttft_p50_s": 1 / speed} for speed in (4.0, 1.0, 2.0)]
        mine = medians(rounds)
        assert mine == {"output_tok_s": 2.0, "ttft_p50_s": 0.5}
        peer = {"output_tok_s": 1.0, "goodput_req_s": 0.0, "ttft_p50_s": 1.0}
        peer |= {"ttft_p95_s": math.inf, "itl_p50_s": 0.0}
        assert ratios(mine, peer) == {"output_tok_s": 2.0, "ttft_p50_s": 0.5}


def events(tokens: int, *texts: str) -> bytes:
    """An answer in chunks of HTTP, an event a text."""
    said = [{"choices": [{"text": text, "finish_reason": None}]} for text in texts]
    said.append({"choices": [{"text": "", "finish_reason": "length"}]})
    usage = {"completion_tokens": tokens, "prompt_tokens": 9}
    said.append({"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 4}}})
    body = [f"data: {json.dumps(one)}\n\n".encode() for one in said] + [b"data: [DONE]\n\n"]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in body)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


class TestClient:
    TURN = Turn((40, 41, 42), 3)

    def test_a_request_asks_for_exactly_so_many_tokens(self) -> None:
        head, _, body = request(Server("127.0.0.1", 1, "m"), self.TURN).partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        asked = json.loads(body)
        assert (asked["prompt"], asked["max_tokens"]) == ([40, 41, 42], 3)
        assert asked["ignore_eos"] is asked["stream"] is True

    @given(st.lists(st.integers(1, 400), max_size=12))
    def test_an_answer_reads_the_same_however_it_was_cut(self, cuts: list[int]) -> None:
        data = events(3, "a", "b", "c")
        reads, at = [], 0
        for cut in cuts:
            reads.append(data[at : at + cut])
            at += cut
        reads.append(data[at:])
        raw = Raw(0.0, [(float(i), piece) for i, piece in enumerate(reads)])
        found = seen(raw, self.TURN)
        assert (found.error, found.tokens, found.prompt_tokens, found.cached) == ("", 3, 9, 4)
        assert len(found.pieces) == 3
        assert list(found.pieces) == sorted(found.pieces)
        assert found.pieces[-1] <= found.ended <= len(reads) - 1

    def test_an_event_came_when_its_last_byte_did(self) -> None:
        data = events(3, "a", "b")
        begun = data.index(b'"b"')
        found = seen(Raw(0.0, [(1.0, data[:begun]), (2.0, data[begun:])]), self.TURN)
        assert (found.pieces, found.ended) == ((1.0, 2.0), 2.0)

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (events(2, "a", "b"), "2 tokens in 2 pieces"),
            (events(3, "a")[:120], "0 tokens in"),
            (b"HTTP/1.1 503 Busy\r\n\r\n", "status 503"),
            (b"", "status 0"),
            (b'HTTP/1.1 200 OK\r\n\r\ndata: {"error": {"code": "x"}}\n\n', "'code': 'x'"),
            (b'HTTP/1.1 200 OK\r\n\r\nerror: "gone"\n\n', "gone"),
        ],
    )
    def test_another_answer_is_an_error(self, data: bytes, error: str) -> None:
        found = seen(Raw(0.0, [(1.0, data)]), self.TURN)
        assert error in found.error
        assert found.ttft == math.inf


def figures(speed: float) -> dict[str, float]:
    """What a load of one server comes to."""
    load = [answered(0.0, 1 / speed, 2 / speed, 11), answered(0.0, 2 / speed, 4 / speed, 11)]
    return {**summary(load, Slo(2.0, 0.1)), "client_cores": 0.1, "own": 1.0}


MEASURED = {
    f"short {loop} {value}": summarized({OURS: [figures(2.0 * value)], PEER: [figures(value)]})
    for loop, value in (("closed", 1), ("closed", 4), ("open", 0.5))
}


class TestReport:
    def test_each_load_has_a_line_of_each_server_and_one_of_ratios(self) -> None:
        lines = table(MEASURED).splitlines()
        assert len(lines) == 1 + 3 * 3
        assert "output_tok_s 2.00" in lines[3]
        assert "ttft_p50_s 0.50" in lines[3]

    def test_rounds_that_shared_the_machine_count_where_there_is_no_other(self) -> None:
        slow, quick = {**figures(1.0), "own": 0.5}, figures(4.0)
        found = summarized({OURS: [slow, quick, slow], PEER: [slow, slow]})
        assert found[OURS] == quick
        assert found[PEER] == slow
        assert found["clean"] == {OURS: 1, PEER: 0}

    def test_a_server_alone_has_a_line_and_a_drawing(self) -> None:
        alone = {"short closed 1": summarized({OURS: [figures(2.0)]})}
        assert len(table(alone).splitlines()) == 2
        assert all(PEER not in drawn for _, drawn in plots(alone))

    def test_drawings_are_svg_with_a_mark_for_each_figure(self) -> None:
        drawn = dict(plots(MEASURED))
        assert len(drawn) == 2 * 5
        for name, text in drawn.items():
            root = ElementTree.fromstring(text)
            assert root.tag == f"{SVG}svg"
            told = [one.text or "" for one in root.iter(f"{SVG}title")]
            assert len(told) == (4 if "closed" in name else 2)
        at_one = ElementTree.fromstring(drawn["short-closed-output_tok_s.svg"]).find(f".//{SVG}g")
        assert at_one is not None
        assert at_one.find(f"{SVG}circle") is not None

    def test_names_are_text_and_times_without_end_are_no_points(self) -> None:
        text = lines_svg("a < b & c", "x", "y", {"<&>": [(1.0, 2.0), (2.0, math.inf)], OURS: []})
        root = ElementTree.fromstring(text)
        assert [one.text for one in root.iter(f"{SVG}title")] == ["<&>: 2 at 1"]

    def test_every_number_of_a_result_is_json(self) -> None:
        result = as_json({"a": [math.inf, 1.5], "b": (math.nan, "x")})
        assert json.loads(json.dumps(result, allow_nan=False)) == {
            "a": [None, 1.5],
            "b": [None, "x"],
        }


class TestArguments:
    def test_shapes_are_asked_in_their_order_in_both_loops(self) -> None:
        args = arguments(["--only", "shared,short", "--streams", "1,8", "--rates", "2"])
        names = [load.name for load in loads(args, MODEL)]
        kinds = ("closed 1", "closed 8", "open 2")
        assert names == [f"{shape} {kind}" for shape in ("short", "shared") for kind in kinds]

    def test_a_shape_that_the_model_has_no_context_for_is_left_out(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert list(loads(arguments(["--only", "long"]), MODEL)) == []
        assert "long: left out" in capsys.readouterr().err

    def test_limits_are_milliseconds(self) -> None:
        assert slo("200,50") == Slo(0.2, 0.05)

    def test_what_is_none_of_it_is_refused_by_name(self) -> None:
        for read, text in ((chosen, "short,wide"), (numbers, "1,0"), (numbers, "x"), (slo, "1")):
            with pytest.raises(ArgumentTypeError):
                read(text)
