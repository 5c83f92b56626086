"""Many requests of one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.generation import Generation
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.errors import EngineError

Start = Callable[[Sequence[Choice]], Generation]


def run_together(asked: Sequence[Sequence[Choice]], start: Start) -> list[Completion]:
    """Run requests side by side, those that would be too many when others of them have ended.

    Where one fails, or Ctrl-C is pressed, all are cancelled; what it was is raised.
    """
    running: list[Generation] = []
    try:
        for choices in asked:
            running.append(_start(choices, start, running))
        return [generation.result() for generation in running]
    except BaseException:
        for generation in running:
            generation.cancel()
        raise


def _start(choices: Sequence[Choice], start: Start, before: Sequence[Generation]) -> Generation:
    while True:
        try:
            return start(choices)
        except EngineError as error:
            waited = next((one for one in before if not one.done), None)
            if error.code != "engine.busy" or waited is None:
                raise
            waited.result()
