"""Load on our own server, with a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import serve
from edgewise_runtime.format.bundle import Bundle
from serving.client import Server
from serving.load import closed_loop, open_loop
from serving.servers import cpu_seconds, our_line, started
from serving.traffic import Lengths, arrivals, sessions

pytestmark = pytest.mark.landing

SMALL = Lengths((3, 5), (4, 6), shared=20, turns=2, between=(2, 4))


def test_a_server_is_loaded_in_both_loops_and_measured(
    bundles: Callable[..., Path], tmp_path: Path
) -> None:
    bundle = bundles("llama-mha")
    vocab = Bundle.open(bundle, verify=False).manifest.model.vocab
    asked = sessions(SMALL, 4, vocab, "1")
    wanted = sorted(turn.tokens for session in asked for turn in session.turns)
    line = our_line(bundle, 1)
    with started(line, bundle.name, "/v1/models", tmp_path / "log") as (server, process):
        for found in (
            closed_loop(server, asked, 2),
            open_loop(server, asked, arrivals(50.0, 4, "1", burst=2)),
        ):
            assert [one.error for one in found] == [""] * 8
            assert sorted(one.tokens for one in found) == wanted
            assert all(one.planned < one.pieces[0] <= one.ended for one in found)
        # The beginning that all share is known by then.
        assert all(one.cached >= 16 for one in found)
        assert cpu_seconds(process) > 0
        nobody = Server(server.host, server.port, "nobody")
        (refused,) = closed_loop(nobody, asked[:1], 1)[:1]
        assert refused.error == "status 404"


def test_a_server_that_does_not_start_is_told_with_its_words(tmp_path: Path) -> None:
    line = our_line(tmp_path / "none", 1)
    starting = started(line, "none", "/v1/models", tmp_path / "log")
    with pytest.raises(RuntimeError, match="none's server is not ready") as failed, starting:
        pass
    assert "error" in str(failed.value).lower()


def test_the_command_writes_what_it_measured(
    bundles: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "result.json"
    line = [
        "serve.py",
        "--model",
        "demo",
        "--bundle",
        str(bundles("llama-mha")),
        "--only",
        "short",
        "--streams",
        "2",
    ]
    line += ["--rates", "40", "--requests", "2", "--rounds", "1", "--wait", "0", "--threads", "1"]
    monkeypatch.setattr("sys.argv", [*line, "--json", str(written), "--plots", str(tmp_path)])
    serve.main()
    result = json.loads(written.read_text())
    assert set(result["loads"]) == {"short closed 2", "short open 40"}
    assert result["loads"]["short closed 2"]["edgewise"]["failed"] == 0
    assert len(list(tmp_path.glob("*.svg"))) == 10
