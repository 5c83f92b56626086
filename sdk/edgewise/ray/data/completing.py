"""Ray Data through engines: rows in, rows with completions out, and a folder of them that a second
run goes on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa
import ray
from ray.data import Dataset

from edgewise.options import RequestOptions, documents
from edgewise.ray.data.answering import SCHEMA, check_free
from edgewise.ray.data.asking import Asking, Columns
from edgewise.ray.data.batch_file import Answering, digest_of_line
from edgewise.ray.data.folder import Folder, Written
from edgewise.ray.data.keys import Digests, among, digest_of
from edgewise.ray.data.parts import PARTS, ROW_KEY, BatchParts
from edgewise.ray.data.worker import Completing
from edgewise.ray.data.workers import Model, Workers
from edgewise.tools import ToolLike
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import shorten

OnError = Literal["row", "raise"]


@documents(RequestOptions)
def complete(
    dataset: Dataset,
    bundle: str | Path,
    *,
    prompt: str | None = None,
    messages: str | None = None,
    row_options: str | None = None,
    key: str | None = None,
    tools: Iterable[ToolLike] | None = None,
    variables: Mapping[str, Any] | None = None,
    workers: Workers | None = None,
    on_error: OnError = "row",
    **options: Unpack[RequestOptions],
) -> Dataset:
    """Complete the rows of a dataset, lazily as all that Ray Data does.

        rows = ray.data.read_parquet("questions.parquet")
        done = complete(rows, "dist/demo-q4", prompt="question", max_tokens=64)
        done.write_parquet("answers")

    Each row gets the columns `completion`, `reasoning`, `tool_calls` (JSON), `finish_reason`,
    `prompt_tokens`, `completion_tokens`, `cached_tokens`, `seed`, `logprobs` and `error`, which is
    null or has `code`, `message` and `remedy`; all others are then null. With the same seed the
    completions are the same bits, whatever the batches and however many workers there are; where
    none is said it is 0.

    Args:
        dataset: whatever Ray reads: Parquet, JSON, CSV, items.
        bundle: a bundle's folder, which every node that has a worker reaches by that path.
        prompt: the column of texts, or of lists of token ids, that are continued.
        messages: or the column of conversations that are answered: lists of structs, or their JSON.
        row_options: a column of options of a row, which come before those of all rows: a struct, or
            a JSON object. Default: none.
        key: a column that tells rows apart. Each then has a seed of its own, made of the seed and
            its key. Default: all have the same seed, and the same prompts the same completions.
        tools, variables: as for `Engine.chat`, for all rows.
        workers: how many engines, and what each has. Default: ``Workers()``, one with one CPU.
        on_error: ``"row"`` to say of a row what is wrong with it and go on; ``"raise"`` to end.
            What is wrong with more than a row, such as a bundle that cannot be loaded, always ends.
        options: below, for all rows. `n` is 1: have a row for each choice.

    Raises:
        InputError: ``input.column``, and as `Engine.generate` does for options; where rows are
            answered, Ray wraps it.
        BundleError: for what is no bundle.
    """
    columns = Columns(prompt=prompt, messages=messages, options=row_options, key=key)
    asking = Asking.of(columns, options, tools=tools, variables=variables)
    _check(dataset, columns, on_error)
    return _completed(dataset, Model.of(bundle), asking, workers, on_error)


@documents(RequestOptions)
def complete_to(
    dataset: Dataset,
    bundle: str | Path,
    folder: str | Path,
    *,
    prompt: str | None = None,
    messages: str | None = None,
    row_options: str | None = None,
    key: str | None = None,
    tools: Iterable[ToolLike] | None = None,
    variables: Mapping[str, Any] | None = None,
    workers: Workers | None = None,
    on_error: OnError = "row",
    file_format: Literal["parquet", "jsonl"] = "parquet",
    retry_failed: bool = False,
    **options: Unpack[RequestOptions],
) -> Written:
    """Complete the rows of a dataset that a folder has not yet, and write them there.

        written = complete_to(rows, "dist/demo-q4", "answers", prompt="question", key="id")
        answers = ray.data.read_parquet("answers")

    The folder has parts of some rows each, which appear whole or not at all. A run that was ended,
    however, is gone on with by another: rows that lie there are not answered again. At the end each
    row is there once, with a column `row_key` beside those of `complete`.

    Args:
        folder: of this machine. It is made where it is not there, and belongs to one job: another
            model, or other options, are refused.
        key: the column that tells rows apart. Default: all that is in a row. Of rows that are the
            same by it one is answered and written.
        file_format: of the parts.
        retry_failed: answer rows again that the folder has with an error.
        dataset, bundle, prompt, messages, row_options, tools, variables, workers, on_error: as for
            `complete`.
        options: below, as for `complete`.

    Raises:
        InputError: as `complete` does, what is raised where rows are answered included;
            ``input.job`` for the folder of another job.
        EngineError: ``engine.busy`` where another run writes to the folder.
        StorageError: where it cannot be read or written.
    """
    if file_format not in PARTS:
        raise InputError(
            f"file_format is {shorten(file_format)}.",
            remedy=f"There are {', '.join(PARTS)}.",
            code="input.option",
        )
    columns = Columns(prompt=prompt, messages=messages, options=row_options, key=key)
    asking = Asking.of(columns, options, tools=tools, variables=variables)
    _check(dataset, columns, on_error)
    model = Model.of(bundle)
    job = {"format": file_format, "weights": model.weights_id, **asking.to_json()}
    with Folder.opened(Path(folder), PARTS[file_format], job, retry_failed=retry_failed) as opened:
        left = _undone(dataset, partial(digest_of, key=key), opened.known)
        _take(_completed(left, model, asking, workers, on_error), opened)
    return opened.written


def complete_batch(
    files: str | Path | Sequence[str | Path],
    bundle: str | Path,
    folder: str | Path,
    *,
    model: str | None = None,
    seed: int = 0,
    workers: Workers | None = None,
    on_error: OnError = "row",
    retry_failed: bool = False,
) -> Written:
    """Answer the requests of OpenAI's batch files, as `complete_to` does rows.

        complete_batch("requests.jsonl", "dist/demo-q4", "answers")

    A line is ``{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": ...}``;
    ``/v1/completions`` and ``/v1/embeddings`` are answered, too. The parts of the folder have a
    line for each: ``{"id": ..., "custom_id": ..., "response": {"status_code": ..., "body": ...},
    "error": null}``, in any order. A line that is no request has no `custom_id` and no response,
    and an `error` with a code and a message.

    Args:
        files: of this machine, or what else `ray.data.read_text` reads.
        model: the name that requests have to call the model. Default: whatever they call it.
        seed: requests that say no seed have one of their own, made of this and their ``custom_id``.
        bundle, folder, workers, on_error, retry_failed: as for `complete_to`.

    Raises as `complete_to` does.
    """
    paths = [files] if isinstance(files, str | Path) else list(files)
    dataset = ray.data.read_text([str(path) for path in paths])
    loaded = Model.of(bundle)
    job = {"format": "batch", "weights": loaded.weights_id, "model": model, "seed": seed}
    with Folder.opened(Path(folder), BatchParts(), job, retry_failed=retry_failed) as opened:
        left = _undone(dataset, digest_of_line, opened.known)
        arguments = {"model": model, "seed": seed, "keep": on_error == "row"}
        _take((workers or Workers()).map(left, loaded, Answering, arguments), opened)
    return opened.written


def _check(dataset: Dataset, columns: Columns, on_error: str) -> None:
    """Refuse what is known to be wrong before anything is read."""
    if on_error not in ("row", "raise"):
        raise InputError(
            f"on_error is {shorten(on_error)}.", remedy="It is row or raise.", code="input.option"
        )
    schema = dataset.schema(fetch_if_missing=False)
    if schema is not None:
        columns.check(schema.names)
        check_free(schema.names, [*SCHEMA.names, ROW_KEY])


def _completed(
    dataset: Dataset, model: Model, asking: Asking, workers: Workers | None, on_error: str
) -> Dataset:
    arguments = {"asking": asking, "keep": on_error == "row"}
    return (workers or Workers()).map(dataset, model, Completing, arguments)


def _undone(
    dataset: Dataset, digest: Callable[[Mapping[str, Any]], bytes], done: Digests
) -> Dataset:
    """The rows of a dataset that are not among these, with their keys in a column."""
    shared = ray.put(done)

    def undone(table: pa.Table) -> pa.Table:
        digests = [digest(row) for row in table.to_pylist()]
        keys = pa.array([one.hex() for one in digests], pa.string())
        left = pa.array(~among(digests, ray.get(shared)))
        return table.append_column(ROW_KEY, keys).filter(left)

    return dataset.map_batches(undone, batch_size=1024, batch_format="pyarrow")


def _take(dataset: Dataset, folder: Folder) -> None:
    """Write what comes. Raises the error of ours that Ray has wrapped, where it was one."""
    try:
        for table in dataset.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            folder.add(table)
    except Exception as error:
        ours = _within(error)
        if ours is None:
            raise
        raise ours from error


def _within(error: BaseException | None) -> EdgewiseError | None:
    """The error of ours that another was raised for."""
    for _ in range(16):
        if error is None or isinstance(error, EdgewiseError):
            return error
        error = getattr(error, "cause", None) or error.__cause__
    return None
