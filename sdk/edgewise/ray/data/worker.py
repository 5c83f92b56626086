"""What an actor does: it loads a bundle once, and answers rows of its batches beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from edgewise.hosting.base import Ended, Hosted
from edgewise.ray.data.answering import SCHEMA, Answer, check_free, with_answers
from edgewise.ray.data.asking import Asking
from edgewise.server.openai.choices import whole
from edgewise_runtime.errors import EdgewiseError, InputError

BUSY_S = 0.02
"""Seconds until a request is made again that there was no room for."""

GONE = ("device.", "engine.closed", "engine.gone", "engine.draining", "bundle.", "storage.")
"""Errors that are no row's: all others would fail alike."""

Load = Callable[[], Coroutine[Any, Any, Hosted]]

T = TypeVar("T")


def is_own(error: EdgewiseError) -> bool:
    """Whether it is one row's error, and others may do."""
    return not error.code.startswith(GONE)


async def together(running: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What comes of each, in their order; where one raises, the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in running]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What comes of a request, which is made again for as long as others leave it no room."""
    while True:
        try:
            return await ask()
        except EdgewiseError as error:
            if error.code != "engine.busy":
                raise
        await asyncio.sleep(BUSY_S)


def loaded(load: Load) -> Callable[[], Hosted]:
    """Gives the model, or raises why there is none: what an actor raises while it is made reaches
    nobody as the error that it was, and what it raises for its first batch does."""
    try:
        hosted = asyncio.run(load())
    except EdgewiseError as error:
        failure = error

        def refuse() -> Hosted:
            raise failure

        return refuse
    return lambda: hosted


class Completing:
    """Completes the rows of tables; what `map_batches` makes an actor of."""

    def __init__(self, load: Load, asking: Asking, keep: bool) -> None:
        """Load the model.

        Args:
            load: loads it.
            asking: what is asked of every row.
            keep: a row's own error is what comes of it; else it ends them all.
        """
        self._hosted = loaded(load)
        self._asking = asking
        self._keep = keep

    async def __call__(self, table: pa.Table) -> pa.Table:
        """The table with its answers; raises what is no row's own error."""
        self._hosted()
        columns = self._asking.columns
        columns.check(table.column_names)
        check_free(table.column_names, SCHEMA.names)
        rows = table.select(columns.named).to_pylist()
        return with_answers(table, await together(map(self._answer, rows)))

    async def _answer(self, row: Mapping[str, Any]) -> Answer:
        try:
            return await patiently(lambda: self._ended(row))
        except EdgewiseError as error:
            if not self._keep or not is_own(error):
                raise
            return error

    async def _ended(self, row: Mapping[str, Any]) -> Ended:
        ask = self._asking.ask_of(row)
        if ask.options.get("n", 1) != 1:
            raise InputError(
                f"n is {ask.options['n']}; a row has one completion.",
                remedy="Have a row for each, with keys of their own.",
                code="input.n",
            )
        (ended,) = await whole(self._hosted().ask(ask))
        return ended
