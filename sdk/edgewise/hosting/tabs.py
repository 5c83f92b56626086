"""Tabs of browsers that lend their GPU: who they are, and which of them is given which request.

A tab is asked over the WebSocket that it opened, and what it says of a request is not believed
further than it could be true. Nothing here knows of sockets: a `Line` is one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from threading import Condition

from edgewise.deltas import CallBegins, CallEnds, Delta
from edgewise.hosting.base import Ask, Ended, Said
from edgewise.hosting.tab import Later, Lent, Line, Run, Tab, Timer
from edgewise_runtime.engine.completion import Timings, Usage
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError

LEND = "?lend"
"""What the address of a page ends with that lends its GPU by itself."""
BEAT_S = 5.0
"""Seconds between beats, which a tab answers itself: pings of a WebSocket are answered by a part of
the browser that goes on where the tab has stopped."""
MAX_BEAT_S = 3600
UNANSWERED = 2
"""Beats without an answer after which a tab is gone."""
MAX_WAITING = 64
"""Requests that wait for a tab."""
MAX_TABS = 32
MAX_SLOTS = 64
"""Requests that one tab takes at a time."""
MAX_TEXT = 16 << 20
"""Characters of one answer."""


class Tabs:
    """The tabs that lend their GPU to one bundle. For one event loop, but for `wait`."""

    def __init__(
        self,
        bundle: str,
        tokenizer: str,
        *,
        context: int,
        vocab: int,
        beat_s: float = BEAT_S,
        later: Later | None = None,
    ) -> None:
        """Those of the bundle with this digest, whose tokenizer.json has this SHA-256.

        Args:
            context: the most tokens that the bundle's model holds.
            vocab: tokens that it has.
            beat_s: seconds between beats.
            later: the event loop's own where there is none.
        """
        self.beat_s = beat_s
        self._bundle, self._tokenizer = bundle, tokenizer
        self._context, self._vocab = context, vocab
        self._later = later or _later
        self._tabs: dict[str, Tab] = {}
        self._waiting: deque[Run] = deque()
        self._ids, self._turns = count(1), count(1)
        self._changed = Condition()

    def __iter__(self) -> Iterator[Tab]:
        return iter(tuple(self._tabs.values()))

    def __len__(self) -> int:
        return len(self._tabs)

    @property
    def running(self) -> int:
        """Requests that tabs work on."""
        return sum(not run.dropped for tab in self for run in tab.running.values())

    @property
    def waiting(self) -> int:
        """Requests that wait for a tab."""
        return len(self._waiting)

    def wait(self, tabs: int, timeout_s: float | None) -> bool:
        """Wait in another thread until there are so many; whether there are."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._tabs) >= tabs, timeout_s)

    def lend(self, lent: Lent, line: Line) -> Tab:
        """A tab more.

        Raises:
            InputError: ``tab.bundle`` for another bundle than this, another tokenizer, or a context
                that the model does not have.
            EngineError: ``engine.busy`` where there are as many as may be.
        """
        if (lent.bundle, lent.tokenizer) != (self._bundle, self._tokenizer):
            raise InputError(
                f"The tab has another bundle than {lent.model!r} is here: its digest is "
                f"{lent.bundle}, and {self._bundle} here.",
                remedy="Load the model again in the tab.",
                code="tab.bundle",
            )
        if lent.context > self._context:
            raise InputError(
                f"The tab has a context of {lent.context:,} tokens; {lent.model!r} has "
                f"{self._context:,}.",
                remedy="Load the model again in the tab.",
                code="tab.bundle",
            )
        if len(self._tabs) >= MAX_TABS:
            raise EngineError(
                f"{len(self._tabs)} tabs lend their GPU, which is as many as may.",
                remedy="Close one of them.",
                code="engine.busy",
            )
        tab = Tab(f"t{next(self._ids)}", lent, line)
        self._tabs[tab.id] = tab
        return tab

    def start(self, tab: Tab) -> None:
        """Give it requests, and begin to ask whether it is there: its line is ready now."""
        self._tick(tab)
        self._dispatch()
        self._noticed()

    def alive(self, tab: Tab, beat: int) -> None:
        """It has answered a beat. Raises EngineError ``tab.wrong`` for one that was not asked."""
        if not tab.heard < beat <= tab.beat:
            raise wrong(f"beat {beat} was not asked for")
        tab.heard = beat
        halted = [run for run in tab.running.values() if run.halted]
        for run in halted:
            run.late += 1
        # Its page lives, and what computes does not: nobody waits for that.
        if any(run.late > UNANSWERED for run in halted):
            self.lose(tab, self._silent(tab, f"{UNANSWERED} beats after it was to end an answer"))

    def said(self, tab: Tab, run_id: str, deltas: tuple[Delta, ...]) -> None:
        """It has said more of an answer. Raises EngineError ``tab.wrong`` for what cannot be."""
        run = self._running(tab, run_id)
        run.pieces += 1
        run.characters += sum(_size(delta) for delta in deltas)
        # A token is a piece at most, but for what was held back and what closes a thought or call.
        if run.pieces > 2 * tab.lent.context + 64 or run.characters > MAX_TEXT:
            raise wrong(f"run {run_id!r} has more pieces or text than {tab.lent.context} tokens")
        if not run.dropped:
            run.events.put_nowait(Said(deltas))

    def ended(self, tab: Tab, run_id: str, ended: Ended) -> None:
        """An answer is whole. Raises as `said`."""
        run = self._running(tab, run_id)
        if len(ended.token_ids) > tab.lent.context:
            raise wrong(f"run {run_id!r} has more tokens than a context of {tab.lent.context}")
        if any(token >= self._vocab for token in ended.token_ids):
            raise wrong(f"run {run_id!r} has a token that is none of {self._vocab:,}")
        if ended.finish_reason == "cancelled" and not run.halted:
            error = EngineError(
                "The tab has stopped the answer.", remedy="Ask again.", code="tab.stopped"
            )
            self._over(tab, run, error)
            return
        self._over(tab, run, ended)

    def failed(self, tab: Tab, run_id: str, error: EdgewiseError) -> None:
        """An answer has ended with an error. Raises as `said`."""
        self._over(tab, self._running(tab, run_id), error)

    def unlend(self, tab: Tab) -> None:
        """It takes no more, and finishes what it has."""
        tab.leaving = True
        self._fail_waiting_if_none()

    def gone(self, tab: Tab) -> None:
        """Its line is broken."""
        self.lose(
            tab,
            EngineError(
                f"The tab that answered ({tab.lent.device}) has gone: it was closed, reloaded or "
                "lost its connection.",
                remedy="Ask again; open the app in a tab if there is none.",
                code="tab.gone",
            ),
        )

    def lose(self, tab: Tab, error: EdgewiseError) -> None:
        """Do without a tab. Its answers end with this error; another begins what it had not."""
        if self._tabs.pop(tab.id, None) is None:
            return
        if tab.timer is not None:
            tab.timer.cancel()
        tab.line.hang_up(error)
        for run in reversed(tab.running.values()):
            if run.dropped:
                continue
            if run.pieces == 0 and run.tries > 0 and not run.halted:
                self._waiting.appendleft(run)
            else:
                run.events.put_nowait(error)
        tab.running.clear()
        self._noticed()
        self._fail_waiting_if_none(error)
        self._dispatch()

    def begin(self, ask: Ask) -> Run:
        """Give a request to a tab, now or when one is free.

        Raises:
            EngineError: ``tab.none`` where no tab lends its GPU, ``engine.busy`` for too many that
                wait.
        """
        if all(tab.leaving for tab in self):
            raise _none()
        if len(self._waiting) >= MAX_WAITING and not any(tab.takes for tab in self):
            raise EngineError(
                f"{len(self._waiting)} requests wait for a tab, which is as many as may.",
                remedy="Ask again in a while, or open the app in another browser.",
                code="engine.busy",
            )
        run = Run(f"r{next(self._ids)}", ask)
        self._waiting.append(run)
        self._dispatch()
        return run

    def halt(self, run: Run) -> None:
        """Let it end where it is: an `Ended` comes of it. Halting twice is fine."""
        if run.halted:
            return
        run.halted = True
        if run in self._waiting:
            self._waiting.remove(run)
            run.events.put_nowait(_nothing())
        for tab in self:
            if run.id in tab.running:
                tab.line.halt(run.id)

    def leave(self, run: Run) -> None:
        """Nobody wants more of it. Leaving one that has ended is fine."""
        if run.dropped:
            return
        run.dropped = True
        self.halt(run)

    def close(self) -> None:
        """Do without all of them."""
        for tab in self:
            self.lose(tab, EngineError("The server has ended.", code="engine.closed"))

    def _running(self, tab: Tab, run_id: str) -> Run:
        run = tab.running.get(run_id)
        if run is None:
            raise wrong(f"run {run_id!r} is none that it was given")
        return run

    def _over(self, tab: Tab, run: Run, event: Ended | EdgewiseError) -> None:
        del tab.running[run.id]
        if not run.dropped:
            run.events.put_nowait(event)
        self._dispatch()

    def _dispatch(self) -> None:
        while self._waiting:
            free = [tab for tab in self if tab.takes]
            if not free:
                return
            tab, run = min(free, key=lambda one: one.load), self._waiting.popleft()
            run.tries -= 1
            tab.running[run.id] = run
            tab.turn = next(self._turns)
            tab.served += 1
            tab.line.begin(run.id, run.ask)

    def _fail_waiting_if_none(self, error: EdgewiseError | None = None) -> None:
        if not all(tab.leaving for tab in self):
            return
        while self._waiting:
            self._waiting.popleft().events.put_nowait(error or _none())

    def _tick(self, tab: Tab) -> None:
        if tab.beat - tab.heard >= UNANSWERED:
            missed = tab.beat - tab.heard
            self.lose(tab, self._silent(tab, f"{missed} beats, {self.beat_s:g} s apart, missed"))
            return
        tab.beat += 1
        tab.line.beat(tab.beat)
        tab.timer = self._later(self.beat_s, lambda: self._tick(tab))

    def _silent(self, tab: Tab, why: str) -> EngineError:
        return EngineError(
            f"The tab that answered ({tab.lent.device}) has stopped: {why}.",
            remedy="Ask again; bring the tab to the front, or open the app anew.",
            code="tab.silent",
        )

    def _noticed(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _size(delta: Delta) -> int:
    if isinstance(delta, CallBegins):
        return len(delta.id) + len(delta.name)
    return 0 if isinstance(delta, CallEnds) else len(delta.text)


def _nothing() -> Ended:
    """What comes of a request that no tab has begun."""
    timings = Timings(0.0, 0.0, 0.0, 0, 0).to_json()
    return Ended(0, "", "", (), (), "cancelled", Usage(0, 0), timings, 0)


def wrong(why: str) -> EngineError:
    """The error of answers whose tab is not to be believed."""
    return EngineError(
        f"The tab says what cannot be: {why}.", remedy="Load the app again.", code="tab.wrong"
    )


def _none() -> EngineError:
    return EngineError(
        "No tab lends its GPU to this model.",
        remedy="Open the app with ?lend at its address in a browser with WebGPU.",
        code="tab.none",
    )


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)
