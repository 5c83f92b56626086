"""A socket's tab: what it says goes to those who asked, and what they ask goes to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgewise.hosting.base import Ask
from edgewise.hosting.tab import Lent, Tab
from edgewise.hosting.tabs import Tabs, wrong
from edgewise.server.socket.lending import (
    Alive,
    Beat,
    Begin,
    Halt,
    Lend,
    TabEnded,
    TabFailed,
    TabMessage,
    TabSaid,
    ToTab,
    Unlend,
    Welcome,
)
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True)
class SocketLine:
    """A `Line` over a socket."""

    send: Callable[[ToTab], None]
    hang_up: Callable[[EdgewiseError], None]

    def begin(self, run: str, ask: Ask) -> None:
        self.send(Begin(run, ask))

    def halt(self, run: str) -> None:
        self.send(Halt(run))

    def beat(self, beat: int) -> None:
        self.send(Beat(beat))


class Lender:
    """What a socket lends: nothing until its client says so."""

    def __init__(self, models: Mapping[str, Tabs], line: SocketLine) -> None:
        """Args: models: those that tabs may lend their GPU to, by name."""
        self._models = models
        self._line = line
        self._lent: tuple[Tabs, Tab] | None = None

    @property
    def lends(self) -> bool:
        """Whether a tab is at its other end."""
        return self._lent is not None

    def take(self, message: TabMessage) -> None:
        """Do what a tab says.

        Raises:
            InputError: ``tab.unwanted``, ``tab.model``, ``tab.bundle`` and ``tab.lent`` for a GPU
                that is not taken, ``tab.wrong`` for a message of a tab from what is none.
            EngineError: ``tab.wrong`` for what cannot be, ``engine.busy`` for too many tabs.
        """
        if isinstance(message, Lend):
            self._lend(message.lent)
            return
        if self._lent is None:
            raise InputError(
                "This socket lends no GPU.", remedy="Say lend first.", code="tab.wrong"
            )
        tabs, tab = self._lent
        match message:
            case TabSaid(run, deltas):
                tabs.said(tab, run, deltas)
            case TabEnded(run, ended):
                tabs.ended(tab, run, ended)
            case TabFailed(run, error):
                tabs.failed(tab, run, error)
            case Alive(beat):
                tabs.alive(tab, beat)
            case Unlend():
                tabs.unlend(tab)

    def wrong(self, error: EdgewiseError) -> None:
        """It says what cannot be: its answers are not to be trusted."""
        if self._lent is not None:
            tabs, tab = self._lent
            why = error.message.rstrip(".")
            tabs.lose(tab, error if error.code == "tab.wrong" else wrong(why))

    def left(self) -> None:
        """Its socket is closed."""
        if self._lent is not None:
            tabs, tab = self._lent
            tabs.gone(tab)
            self._lent = None

    def _lend(self, lent: Lent) -> None:
        if self._lent is not None:
            raise InputError(
                "This socket lends a GPU already.",
                remedy="Open another for another model.",
                code="tab.lent",
            )
        if not self._models:
            raise InputError(
                "This server runs models itself and wants no tab's GPU.",
                remedy="Start it with --device browser, or use edgewise.BrowserEngine.",
                code="tab.unwanted",
            )
        tabs = self._models.get(lent.model)
        if tabs is None:
            raise InputError(
                f"There is no model {shorten(lent.model)} that tabs may run.",
                remedy=f"There are {', '.join(self._models)}.",
                code="tab.model",
            )
        tab = tabs.lend(lent, self._line)
        self._lent = (tabs, tab)
        self._line.send(Welcome(tab.id, tabs.beat_s))
        tabs.start(tab)
