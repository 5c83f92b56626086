"""A folder of answers: parts that appear whole, every row once, one job and one writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgewise import EdgewiseError, InputError, StorageError
from edgewise.ray.data import folder as folder_module
from edgewise.ray.data.answering import SCHEMA
from edgewise.ray.data.folder import Folder, Written
from edgewise.ray.data.keys import digest_of
from edgewise.ray.data.parts import BATCH_ID, PARTS, ROW_KEY, BatchParts

JOB = {"weights": "abc", "options": {"max_tokens": 3}}
FORMATS = ("parquet", "jsonl")


def key_of(at: int) -> str:
    return digest_of({"id": at}, "id").hex()


def table(rows: range, failed: tuple[int, ...] = (), **more: Any) -> pa.Table:
    """Rows as they come from workers."""
    answered = [
        {"error": {"code": "input.prompt", "message": "no prompt"}}
        if at in failed
        else {"completion": f"answer {at}"}
        for at in rows
    ]
    found = pa.table({"id": list(rows), ROW_KEY: [key_of(at) for at in rows]})
    added = pa.Table.from_pylist(answered, schema=SCHEMA)
    for name in SCHEMA.names:
        found = found.append_column(SCHEMA.field(name), added[name])
    for name, values in more.items():
        found = found.append_column(name, pa.array(values))
    return found


def write(path: Path, *tables: pa.Table, kind: str = "parquet", **how: Any) -> Written:
    options = {"retry_failed": False, **how}
    with Folder.opened(path, PARTS[kind], JOB, **options) as opened:
        for one in tables:
            opened.add(one)
    return opened.written


def rows_of(path: Path) -> list[dict[str, Any]]:
    """All rows of a folder, sorted by their id."""
    found = [row for part in path.glob("*.parquet") for row in pq.read_table(part).to_pylist()]
    for part in path.glob("*.jsonl"):
        found += map(json.loads, part.read_text().splitlines())
    return sorted(found, key=lambda row: row["id"])


def parts_of(path: Path) -> list[str]:
    return sorted(one.name for one in path.glob("part-*"))


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_written_once_and_a_second_run_knows_them(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a" / "answers"
    first = write(path, table(range(5)), table(range(3, 8)), kind=kind)
    assert (first.rows, first.repeated, first.before) == (8, 2, 0)
    second = write(path, table(range(6, 10)), kind=kind)
    assert (second.rows, second.repeated, second.before) == (2, 2, 8)
    assert [row["id"] for row in rows_of(path)] == list(range(10))
    assert [row["completion"] for row in rows_of(path)] == [f"answer {at}" for at in range(10)]


@pytest.mark.parametrize("kind", FORMATS)
def test_failed_rows_are_kept_or_leave_to_be_answered_again(tmp_path: Path, kind: str) -> None:
    failing = write(tmp_path, table(range(4), failed=(1, 2)), kind=kind)
    assert (failing.rows, failing.failed) == (4, 2)
    write(tmp_path, table(range(4, 6), failed=(4, 5)), kind=kind)
    assert write(tmp_path, kind=kind).before == 6
    again = write(tmp_path, table(range(6)), kind=kind, retry_failed=True)
    assert (again.before, again.rows, again.failed, again.repeated) == (2, 4, 0, 2)
    assert [row["completion"] for row in rows_of(tmp_path)] == [f"answer {at}" for at in range(6)]


def test_a_part_is_written_when_it_is_large_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "PART_ROWS", 10)
    with Folder.opened(tmp_path, PARTS["parquet"], JOB, retry_failed=False) as opened:
        for at in range(0, 32, 4):
            opened.add(table(range(at, at + 4)))
        assert parts_of(tmp_path) == ["part-000000.parquet", "part-000001.parquet"]
        monkeypatch.setattr(folder_module, "PART_SECONDS", 0)
        opened.add(table(range(32, 33)))
        assert len(parts_of(tmp_path)) == 3
        monkeypatch.setattr(folder_module, "PART_SECONDS", 60)
        monkeypatch.setattr(folder_module, "PART_BYTES", 1)
        opened.add(table(range(33, 34)))
        assert len(parts_of(tmp_path)) == 4
    assert [row["id"] for row in rows_of(tmp_path)] == list(range(34))


def test_what_came_before_a_run_failed_is_written(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Folder.opened(tmp_path, PARTS["jsonl"], JOB, retry_failed=False) as opened:
            opened.add(table(range(3)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2]
    assert write(tmp_path, table(range(4)), kind="jsonl").rows == 1


def test_tables_with_other_columns_are_parts_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, table(range(2)), table(range(2, 4), label=["a", "b"]))
    assert len(parts_of(tmp_path)) == 2
    assert [row.get("label") for row in rows_of(tmp_path)] == [None, None, "a", "b"]


def test_what_a_killed_run_has_half_written_is_no_part_and_goes(tmp_path: Path) -> None:
    write(tmp_path, table(range(2)))
    left = tmp_path / ".part-000001.parquet.0123456789ab.tmp"
    left.write_bytes(b"PAR1 half of it")
    assert write(tmp_path, table(range(4))).rows == 2
    assert not left.exists()
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2, 3]


def test_numbers_that_are_none_are_null_in_json_and_what_has_no_word_is_refused(
    tmp_path: Path,
) -> None:
    write(tmp_path, table(range(2), score=[float("nan"), 1.5]), kind="jsonl")
    assert [row["score"] for row in rows_of(tmp_path)] == [None, 1.5]
    with pytest.raises(InputError, match="Write Parquet") as caught:
        write(tmp_path, table(range(2, 3), data=[b"\0"]), kind="jsonl")
    assert caught.value.code == "input.column"
    write(tmp_path / "other", table(range(1), data=[b"\0"]))


def test_a_folder_of_another_job_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    write(tmp_path, table(range(2)))
    other = {**JOB, "options": {"max_tokens": 4}}
    with (
        pytest.raises(InputError, match=r"its options is \{.max_tokens.: 3\}") as caught,
        Folder.opened(tmp_path, PARTS["parquet"], other, retry_failed=False),
    ):
        pass
    assert caught.value.code == "input.job"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        write(tmp_path, table(range(2)))
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with Folder.opened(tmp_path, PARTS["parquet"], JOB, retry_failed=False):
        with pytest.raises(EdgewiseError, match="Another run writes") as caught:
            write(tmp_path)
        assert caught.value.code == "engine.busy"
    assert write(tmp_path).before == 0


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("parquet", b"no Parquet"),
        ("parquet", b""),
        ("jsonl", b'{"row_key": "00", "error": null}\n'),
        ("jsonl", b'{"row_key": 7, "error": null}\n'),
        ("jsonl", b'{"error": null}\n'),
        ("jsonl", b'{"row_key": "0123456789abcdef0123456789ab'),
        ("jsonl", b"[]\n"),
    ],
)
def test_a_damaged_part_is_named(tmp_path: Path, kind: str, data: bytes) -> None:
    write(tmp_path, kind=kind)
    (tmp_path / f"part-000000.{kind}").write_bytes(data)
    with pytest.raises(StorageError, match="part-000000") as caught:
        write(tmp_path, kind=kind)
    assert caught.value.code == "storage.part"


def test_a_parquet_part_without_its_columns_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "part-000000.parquet")
    with pytest.raises(StorageError, match="part-000000"):
        write(tmp_path)


def test_lines_of_a_batch_are_known_by_their_ids(tmp_path: Path) -> None:
    def lines(rows: range, status: int) -> pa.Table:
        said = [
            {"id": BATCH_ID + key_of(at), "response": {"status_code": status}, "error": None}
            for at in rows
        ]
        return pa.table(
            {
                ROW_KEY: [key_of(at) for at in rows],
                "line": list(map(json.dumps, said)),
                "failed": [status != 200] * len(rows),
            }
        )

    def write_lines(*tables: pa.Table, retry_failed: bool = False) -> Written:
        with Folder.opened(tmp_path, BatchParts(), JOB, retry_failed=retry_failed) as opened:
            for one in tables:
                opened.add(one)
        return opened.written

    first = write_lines(lines(range(2), 200), lines(range(2, 5), 400))
    assert (first.rows, first.failed) == (5, 3)
    assert write_lines().before == 5
    again = write_lines(lines(range(5), 200), retry_failed=True)
    assert (again.before, again.rows, again.failed) == (2, 3, 0)
