"""Makes the masks of a step while the device computes it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Rows
from concurrent.futures import ThreadPoolExecutor

from edgewise_runtime.engine.constraint import Mask
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import EdgewiseError

Asked = tuple[Sequence, tuple[int, ...]]
"""A sequence, and the draft after each token of which a mask is wanted as well."""

Masks = list["Mask | None"]
"""A mask for each row that is drawn; None where any token may come."""


class MaskMaker:
    """Asks constraints on a thread of its own."""

    def __init__(self, words: int) -> None:
        """Args: words: of a mask."""
        self._words = words
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, asked: Rows[Asked]) -> Callable[[], Masks]:
        """Begin to make masks; what is returned waits for them.

        A sequence whose constraint fails has ended with its error then.
        """
        making = [(s, draft) for s, draft in asked if s.guide is not None]
        if not making:
            rows = sum(1 + len(draft) for _, draft in asked)
            return lambda: [None] * rows
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="edgewise-masks")
        future = self._pool.submit(lambda: [self._made(*one) for one in making])

        def masks() -> Masks:
            made = {s: one for (s, _), one in zip(making, future.result(), strict=True)}
            found: Masks = []
            for sequence, draft in asked:
                one = made.get(sequence)
                if isinstance(one, EdgewiseError):
                    sequence.fail(one)
                    one = None
                found += one or [None] * (1 + len(draft))
            return found

        return masks

    def close(self) -> None:
        """End the thread. Closing twice is fine."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _made(self, sequence: Sequence, draft: tuple[int, ...]) -> Masks | EdgewiseError:
        try:
            return sequence.masks(self._words, draft)
        except EdgewiseError as error:
            return error
