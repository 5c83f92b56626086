"""Drafts from a smaller model of the same tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.speculate.base import VERIFYING, DraftView
from edgewise_runtime.engine.speculate.steps import DraftRow, DraftSteps
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.kv.budget import weight_bytes
from edgewise_runtime.kv.pages import PagePool, PageTable
from edgewise_runtime.text import Tokenizer

PATIENCE = 32
"""Calls for others after which a sequence's pages may go to another."""


def check_draft(draft: Bundle, target: Bundle) -> None:
    """Make sure that token ids mean the same to a draft model and to its target.

    Raises:
        InputError: ``input.draft`` where the vocabularies differ in size or in a token.
        CheckpointError: a tokenizer that cannot be read.
    """
    ours, theirs = draft.model.vocab, target.model.vocab
    if ours != theirs:
        raise _mismatch(draft, target, f"it has {ours:,} token ids and the target {theirs:,}")
    files = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    # The hashes of small files were checked when the bundles were opened.
    if [draft.manifest.files.get(f) for f in files] == [
        target.manifest.files.get(f) for f in files
    ]:
        return
    one, other = Tokenizer.from_bundle(draft), Tokenizer.from_bundle(target)
    for token in range(theirs):
        if one.token_of(token) != other.token_of(token):
            raise _mismatch(
                draft,
                target,
                f"its token {token} is {one.token_of(token)!r} and the target's "
                f"{other.token_of(token)!r}",
            )


class DraftModel:
    """Continues sequences with a smaller model, as the target would be asked to.

    It draws by the target's rules (penalties, biases, filters, temperature) and with the random
    number that the target will use for the same position, so that a draft is right wherever the
    two models' distributions are alike, not only where both are sure.

    A sequence's pages stay between calls: tokens that were accepted are not computed again, and
    what the target decided otherwise is overwritten. Where pages run out, those of a sequence not
    drafted for in the last `PATIENCE` calls are taken; without one there is no draft.
    """

    def __init__(
        self, program: LoadedProgram, pages: int, target: Bundle, *, cost: float | None = None
    ) -> None:
        """Draft with a program for the model of the bundle `target`.

        The program belongs to the drafter from now on: nobody else runs it, and `close` closes it.

        Args:
            program: of the model that drafts.
            pages: how many KV pages it was loaded with.
            target: the model drafted for.
            cost: see `Drafter.cost`; None for an estimate from the bytes of both models' weights,
                which is what decoding reads.

        Raises InputError ``input.draft`` as `check_draft` does, ``input.pages`` without a page.
        """
        check_draft(program.bundle, target)
        self._program = program
        self._steps = DraftSteps(program, target.model.eos)
        self._pool = PagePool(pages)
        self._page_tokens = paged_state(program.bundle.manifest).page_tokens
        self._groups = len(program.bundle.manifest.state_groups)
        # No page of a draft is given back behind a window.
        room = pages // self._groups * self._page_tokens
        self._context = min(program.bundle.model.context, room)
        self._kept: dict[int, _Kept] = {}
        self._calls = 0
        drafting = weight_bytes(program.bundle, program.program)
        verifying = weight_bytes(target, target.manifest.programs[0])
        self._cost = VERIFYING + drafting / verifying if cost is None else cost

    @property
    def cost(self) -> float:
        """As `Drafter.cost`: a step of this model, and the token's part in one of the target."""
        return self._cost

    def propose(self, sequence: DraftView, k: int) -> tuple[int, ...]:
        """As `Drafter.propose`; none past the draft model's own context either."""
        return self.propose_all([(sequence, k)])[0]

    def propose_all(self, wanted: Sequence[tuple[DraftView, int]]) -> list[tuple[int, ...]]:
        """As `Drafter.propose_all`: the weights are read once for all of them."""
        self._calls += 1
        drafts: list[tuple[int, ...]] = [()] * len(wanted)
        rows = {at: row for at, w in enumerate(wanted) if (row := self._row(*w)) is not None}
        places = list(rows)
        for first in range(0, len(places), self._steps.sequences):
            group = places[first : first + self._steps.sequences]
            drawn = self._draft([rows[at] for at in group])
            for at, draft in zip(group, drawn, strict=True):
                drafts[at] = draft
        return drafts

    def forget(self, key: int) -> None:
        """As `Drafter.forget`: its pages are free."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.table.release()

    def close(self) -> None:
        """As `Drafter.close`, the program included."""
        for key in list(self._kept):
            self.forget(key)
        self._program.close()

    def _row(self, view: DraftView, k: int) -> DraftRow | None:
        known = len(view.tokens) - 1
        k = min(k, self._steps.burst, self._context - known)
        if k < 1 or known < 0:
            return None
        kept = self._kept.get(view.key)
        if kept is None:
            table = PageTable(self._pool, self._steps.pages, self._page_tokens, self._groups)
            kept = self._kept[view.key] = _Kept(table)
        if not self._reserve(kept, known + k):
            return None
        kept.used = self._calls
        return DraftRow(view, kept.table, kept.valid(view.tokens), k)

    def _draft(self, rows: Sequence[DraftRow]) -> list[tuple[int, ...]]:
        kepts = [self._kept[row.view.key] for row in rows]
        for kept, row in zip(kepts, rows, strict=True):
            # What follows is about to be overwritten, however far that gets.
            kept.committed, kept.drafted = row.start, ()
        self._steps.prefill(rows)
        drafts = self._steps.decode(rows)
        for kept, row, draft in zip(kepts, rows, drafts, strict=True):
            kept.committed, kept.drafted = len(row.view.tokens), draft[:-1]
        return drafts

    def _reserve(self, kept: _Kept, tokens: int) -> bool:
        """Make room for so many tokens of a sequence, if need be with an idle one's pages."""
        while not kept.table.reserve(tokens):
            idle = [
                other
                for other in self._kept.values()
                if other is not kept and other.table.pages and self._calls - other.used > PATIENCE
            ]
            if not idle:
                return False
            min(idle, key=lambda other: other.used).drop()
        return True


@dataclass(slots=True)
class _Kept:
    """What is in the pages of a sequence: its first `committed` tokens, then a draft."""

    table: PageTable
    committed: int = 0
    drafted: tuple[int, ...] = ()
    used: int = 0

    def valid(self, tokens: Sequence[int]) -> int:
        """How many tokens need not be computed again: never the last, whose row draws."""
        if len(tokens) < self.committed:
            return 0  # another text, though it should not be one
        same = 0
        followed = tokens[self.committed : self.committed + len(self.drafted)]
        while same < len(followed) and followed[same] == self.drafted[same]:
            same += 1
        return min(self.committed + same, len(tokens) - 1)

    def drop(self) -> None:
        self.table.release()
        self.committed, self.drafted = 0, ()


def _mismatch(draft: Bundle, target: Bundle, why: str) -> InputError:
    return InputError(
        f"{draft.name!r} cannot draft for {target.name!r}: {why}.",
        remedy="Choose a smaller model of the same family, whose tokenizer is the same.",
        code="input.draft",
    )
