"""Datasets of each kind through a cluster's workers, and folders that a second run goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from edgewise import EdgewiseError, Engine, InputError, TrustError
from tests.sdk.ray.conftest import Cluster

HOT: dict[str, Any] = {"temperature": 1.0, "max_tokens": 6, "ignore_eos": True}
ROWS = 24

# Each job starts workers: ten seconds to a minute of waiting.
pytestmark = pytest.mark.full


@pytest.fixture
def data(cluster: Cluster) -> Any:
    """`ray.data`, in a cluster whose nodes have another key."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    return ray.data


def workers(**options: Any) -> Any:
    from edgewise.ray import Workers

    return Workers(**{"batch_size": 8, "num_cpus": 0.5, "context": 512, "threads": 1, **options})


def table(rows: range) -> pa.Table:
    return pa.table({"id": list(rows), "question": [f"Once upon {at}" for at in rows]})


def by_id(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Rows by their number, of which none may be there twice."""
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def completions(rows: list[dict[str, Any]]) -> dict[int, str]:
    return {at: row["completion"] for at, row in by_id(rows).items()}


def test_parquet_json_and_csv_are_completed_alike_as_the_engine_would_alone(
    data: Any, tiny: Path, engine: Engine, tmp_path: Path
) -> None:
    from edgewise.ray import complete

    asked = table(range(ROWS))
    pq.write_table(asked, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(asked, tmp_path / "rows.csv")
    lines = "".join(json.dumps(row) + "\n" for row in asked.to_pylist())
    (tmp_path / "rows.jsonl").write_text(lines)
    kinds = {
        "parquet": data.read_parquet(str(tmp_path / "rows.parquet")),
        "csv": data.read_csv(str(tmp_path / "rows.csv")),
        "json": data.read_json(str(tmp_path / "rows.jsonl"), lines=True),
    }
    united = kinds["parquet"].union(kinds["csv"].map(_later), kinds["json"].map(_last))
    options: dict[str, Any] = {**HOT, "prompt": "question", "workers": workers(concurrency=2)}
    found = by_id(complete(united, tiny, **options).take_all())
    assert sorted(found) == [*range(ROWS), *range(100, 100 + ROWS), *range(200, 200 + ROWS)]
    for at in range(ROWS):
        alone = engine.generate(f"Once upon {at}", seed=0, **HOT)
        for row in (found[at], found[at + 100], found[at + 200]):
            assert (row["completion"], row["error"]) == (alone.text, None)
            assert row["prompt_tokens"] == alone.usage.prompt_tokens


def _later(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": row["id"] + 100}


def _last(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": row["id"] + 200}


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_second_run_answers_what_the_first_has_not(
    data: Any, tiny: Path, tmp_path: Path, kind: str
) -> None:
    from edgewise.ray import complete_to

    folder = tmp_path / "answers"
    read = {"parquet": data.read_parquet, "jsonl": data.read_json}[kind]
    options: dict[str, Any] = {
        **HOT,
        "prompt": "question",
        "key": "id",
        "seed": 4,
        "file_format": kind,
    }

    def run(rows: range, **how: Any) -> Any:
        asked = {**options, "workers": workers(), **how}
        return complete_to(data.from_arrow(table(rows)), tiny, folder, **asked)

    first = run(range(10))
    assert (first.rows, first.before, first.failed, first.repeated) == (10, 0, 0, 0)
    second = run(range(ROWS), workers=workers(batch_size=3))
    assert (second.rows, second.before, second.failed, second.repeated) == (ROWS - 10, 10, 0, 0)
    parts = [str(one) for one in sorted(folder.glob("part-*"))]
    found = completions(read(parts).take_all())
    assert sorted(found) == list(range(ROWS))
    alone = complete_to(
        data.from_arrow(table(range(ROWS))), tiny, tmp_path / "b", workers=workers(), **options
    )
    assert alone.rows == ROWS
    whole = [str(one) for one in sorted((tmp_path / "b").glob("part-*"))]
    assert completions(read(whole).take_all()) == found
    with pytest.raises(InputError) as caught:
        run(range(ROWS), seed=5)
    assert caught.value.code == "input.job"


def test_a_file_of_openais_batches_is_answered_and_gone_on_with(
    data: Any, tiny: Path, tmp_path: Path
) -> None:
    from edgewise.ray import complete_batch

    def line(at: int) -> str:
        body = {"model": "any", "prompt": f"Once {at}", "max_tokens": 4 if at else -4}
        asked = {"custom_id": f"r{at}", "method": "POST", "url": "/v1/completions", "body": body}
        return json.dumps(asked) + "\n"

    file, folder = tmp_path / "in.jsonl", tmp_path / "out"
    file.write_text("".join(map(line, range(5))))
    first = complete_batch(file, tiny, folder, workers=workers())
    assert (first.rows, first.failed, first.before) == (5, 1, 0)
    file.write_text("".join(map(line, range(8))))
    second = complete_batch(file, tiny, folder, workers=workers())
    assert (second.rows, second.failed, second.before) == (3, 0, 5)
    text = "".join(one.read_text() for one in sorted(folder.glob("part-*.jsonl")))
    found = {one["custom_id"]: one for one in map(json.loads, text.splitlines())}
    assert sorted(found) == [f"r{at}" for at in range(8)]
    statuses = [found[f"r{at}"]["response"]["status_code"] for at in range(8)]
    assert statuses == [400] + [200] * 7


def test_what_ends_a_job_is_said_in_our_words_and_what_had_come_is_kept(
    data: Any, tiny: Path, tmp_path: Path
) -> None:
    from edgewise.ray import complete_to

    rows = [*table(range(12)).to_pylist(), {"id": 12, "question": None}]
    asked: dict[str, Any] = {**HOT, "prompt": "question", "key": "id"}
    one_by_one = workers(batch_size=1, max_concurrent_batches=1)
    with pytest.raises(InputError, match="prompt is None") as caught:
        complete_to(
            data.from_items(rows), tiny, tmp_path, on_error="raise", workers=one_by_one, **asked
        )
    assert caught.value.code == "input.cell"
    written = complete_to(data.from_items(rows), tiny, tmp_path, workers=workers(), **asked)
    assert (written.before + written.rows, written.failed) == (13, 1)
    again = complete_to(data.from_items(rows[:12]), tiny, tmp_path, workers=workers(), **asked)
    assert (again.rows, again.before) == (0, 13)


def test_native_code_that_nobody_vouches_for_does_not_run(
    data: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from edgewise.ray import complete_to

    # Of this user, too, who therefore vouches for nothing.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    with pytest.raises(TrustError) as caught:
        complete_to(
            data.from_arrow(table(range(3))),
            tiny,
            tmp_path / "answers",
            prompt="question",
            workers=workers(),
        )
    assert caught.value.code in ("trust.foreign", "trust.unsigned")
    assert not list((tmp_path / "answers").glob("part-*"))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"prompt": "nothing"}, "input.column"),
        ({"prompt": "question", "key": "number"}, "input.column"),
        ({"prompt": "question", "on_error": "ignore"}, "input.option"),
        ({"prompt": "question", "file_format": "csv"}, "input.option"),
        ({"prompt": "question", "max_tokens": -3}, "input.sampling"),
    ],
)
def test_a_job_that_cannot_be_is_refused_before_anything_is_written(
    data: Any, tiny: Path, tmp_path: Path, given: dict[str, Any], code: str
) -> None:
    from edgewise.ray import complete_to

    with pytest.raises(EdgewiseError) as caught:
        complete_to(data.from_arrow(table(range(3))), tiny, tmp_path / "answers", **given)
    assert caught.value.code == code
    assert not (tmp_path / "answers").exists()


def test_what_is_no_bundle_is_refused(data: Any, tmp_path: Path) -> None:
    from edgewise.ray import complete

    with pytest.raises(InputError, match="workers compile nothing") as caught:
        complete(data.from_arrow(table(range(3))), tmp_path, prompt="question")
    assert caught.value.code == "input.bundle"


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 4.0},
        {"concurrency": 0},
        {"concurrency": (3, 2)},
        {"max_concurrent_batches": 100},
    ],
)
def test_workers_that_cannot_be_are_refused(cluster: Cluster, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        workers(**options)
    assert caught.value.code == "input.option"
