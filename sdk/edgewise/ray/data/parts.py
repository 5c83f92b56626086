"""How answers lie in a folder: files that hold some rows each, with what each row is known by."""

from __future__ import annotations

import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from edgewise.ray.data.keys import DIGEST
from edgewise_runtime.errors import InputError, StorageError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import parse_json, shorten

ROW_KEY = "row_key"
"""The column with what a row is known by, in hexadecimal digits."""
BATCH_ID = "batch_req_"
"""What precedes the same in the id of a line of OpenAI's batch output."""


class Parts(ABC):
    """A kind of file. Attributes: `ending`, of its name."""

    ending: str

    @abstractmethod
    def data(self, table: pa.Table) -> bytes:
        """The file of a table that has a column `ROW_KEY`.

        Raises InputError ``input.column`` for values that it has no words for.
        """

    @abstractmethod
    def keys(self, path: Path) -> Iterator[tuple[bytes, bool]]:
        """What each row of a file is known by, and whether it has failed.

        Raises StorageError ``storage.part`` for a file that is none of these.
        """

    @abstractmethod
    def failed(self, table: pa.Table) -> int:
        """How many rows of such a table have failed."""

    @abstractmethod
    def without_failures(self, path: Path) -> bytes:
        """The file without the rows that have failed; empty where none is left."""


class ParquetParts(Parts):
    """Parquet, compressed with zstd."""

    ending = ".parquet"

    def data(self, table: pa.Table) -> bytes:
        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        return out.getvalue()

    def keys(self, path: Path) -> Iterator[tuple[bytes, bool]]:
        table = self._read(path, [ROW_KEY, "error"])
        failed = table["error"].is_valid()
        for key, one in zip(table[ROW_KEY].to_pylist(), failed.to_pylist(), strict=True):
            yield _digest(key, path), one

    def failed(self, table: pa.Table) -> int:
        return int(table.num_rows - table["error"].null_count)

    def without_failures(self, path: Path) -> bytes:
        table = self._read(path, None)
        left = table.filter(table["error"].is_null())
        return self.data(left) if left.num_rows else b""

    def _read(self, path: Path, columns: list[str] | None) -> pa.Table:
        with storage_errors("read", path):
            try:
                # Not `read_table`, which makes a data set of the whole folder.
                table = pq.ParquetFile(path).read(columns)
            except pa.ArrowException as cause:
                raise _damaged(path, str(cause)) from cause
        if not {ROW_KEY, "error"} <= set(table.column_names):
            raise _damaged(path, f"it has the columns {table.column_names}")
        return table


class JsonParts(Parts):
    """A JSON object a line."""

    ending = ".jsonl"

    def data(self, table: pa.Table) -> bytes:
        return b"".join(map(_line, table.to_pylist()))

    def keys(self, path: Path) -> Iterator[tuple[bytes, bool]]:
        for line in self._lines(path):
            row = self._row(line, path)
            yield self._key(row, path), self._failed(row)

    def failed(self, table: pa.Table) -> int:
        return int(table.num_rows - table["error"].null_count)

    def without_failures(self, path: Path) -> bytes:
        lines = self._lines(path)
        return b"".join(line for line in lines if not self._failed(self._row(line, path)))

    def _lines(self, path: Path) -> Iterator[bytes]:
        with storage_errors("read", path), path.open("rb") as file:
            yield from file

    def _row(self, line: bytes, path: Path) -> dict[str, Any]:
        row = parse_json(line, str(path), StorageError, what="part")
        if not isinstance(row, dict):
            raise _damaged(path, f"a line is {shorten(row)}")
        return row

    def _key(self, row: dict[str, Any], path: Path) -> bytes:
        return _digest(row.get(ROW_KEY), path)

    def _failed(self, row: dict[str, Any]) -> bool:
        return row.get("error") is not None


class BatchParts(JsonParts):
    """Lines of OpenAI's batch output. A table has them in a column `line`, and in `failed` whether
    they are of a request that has."""

    def data(self, table: pa.Table) -> bytes:
        return b"".join(line.encode() + b"\n" for line in table["line"].to_pylist())

    def failed(self, table: pa.Table) -> int:
        return sum(table["failed"].to_pylist())

    def _key(self, row: dict[str, Any], path: Path) -> bytes:
        return _digest(str(row.get("id")).removeprefix(BATCH_ID), path)

    def _failed(self, row: dict[str, Any]) -> bool:
        response = row.get("response")
        return not isinstance(response, dict) or response.get("status_code") != 200


PARTS: dict[str, Parts] = {"parquet": ParquetParts(), "jsonl": JsonParts()}
"""By the name of the format."""


def _digest(text: Any, path: Path) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except (TypeError, ValueError):
        digest = b""
    if len(digest) != DIGEST:
        raise _damaged(path, f"a {ROW_KEY} is {shorten(text)}")
    return digest


def _damaged(path: Path, why: str) -> StorageError:
    return StorageError(
        f"{path} is no part of an earlier run: {shorten(why)}.",
        remedy="Remove it: its rows are then answered again.",
        code="storage.part",
    )


def _line(row: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(_finite(row), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as cause:
        raise InputError(
            f"A row has what JSON has no word for: {shorten(str(cause))}.",
            remedy="Write Parquet, or leave that column out.",
            code="input.column",
        ) from cause
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    """A value with null for numbers that are none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
