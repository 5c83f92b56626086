"""What a model says as the blocks of a message: as they come, and in the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, Delta, NoCall, Reasoning
from edgewise_runtime.calls import joined
from edgewise_runtime.calls.deltas import CUT
from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.reading import shorten

SIGNATURE = "edgewise"
"""Of every thought: clients hand it back, and nobody here has to be told whose it was."""

Told: TypeAlias = dict[str, Any]
"""An event of a stream, which has its ``type``."""


@dataclass
class _Call:
    """A call whose end has not come."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass
class Blocks:
    """Tells the deltas of one answer into blocks.

    What begins as a call may turn out to be none. In a whole answer it is text then, in its place.
    In a stream a call is told as it comes, and cannot be taken back: one that the end of the answer
    cuts is left as it is, as in Anthropic's own streams, which say so by their stop reason; one
    that is malformed ends the stream with an error, so that nobody runs what is half of a call.

    White space that begins a text, and around a thought, is no block by itself.

    Attributes:
        one_call: calls after the first are left out: nothing holds the model to it.
        shows_thoughts: thoughts are told, not only that there are some.
        streams: calls are told as they come.
        content: the blocks that are whole.
        cut: the name of a tool whose call was told and has no end.
    """

    one_call: bool = False
    shows_thoughts: bool = True
    streams: bool = False
    content: list[dict[str, Any]] = field(default_factory=list)
    cut: str | None = None
    _open: Literal["text", "thinking", "tool_use"] | None = None
    _parts: list[str] = field(default_factory=list)
    _before: str = ""
    _behind: str = ""
    _calls: dict[int, _Call] = field(default_factory=dict)
    _calling: int | None = None

    def of(self, deltas: Iterable[Delta]) -> Iterator[Told]:
        """The events of the next deltas.

        Raises EngineError ``engine.call`` where what was told as a call is none.
        """
        for delta in joined(deltas):
            match delta:
                case Content(text) | NoCall(None, text):
                    yield from self._said(text)
                case NoCall(int() as index, text, why):
                    yield from self._no_call(index, text, why)
                case Reasoning(text):
                    yield from self._thought(text)
                case CallBegins(index, id_, name):
                    yield from self._call(index, _Call(id_, name))
                case Arguments(index, text):
                    self._calls[index].arguments.append(text)
                    if index == self._calling and text:
                        yield _delta(len(self.content), _input(text))
                case CallEnds(index):
                    yield from self._called(index)

    def end(self) -> Iterator[Told]:
        """The events that end the block that is open, if one is."""
        kind, said = self._open, "".join(self._parts)
        if kind is None:
            return
        at = len(self.content)
        if kind == "thinking":
            self.content.append({"type": "thinking", "thinking": said, "signature": SIGNATURE})
            yield _delta(at, {"type": "signature_delta", "signature": SIGNATURE})
        elif kind == "text":
            self.content.append({"type": "text", "text": said})
        yield _stop(at)
        self._open, self._parts, self._behind = None, [], ""

    def _begin(
        self, kind: Literal["text", "thinking", "tool_use"], empty: dict[str, Any]
    ) -> Iterator[Told]:
        yield from self.end()
        self._open, self._before = kind, ""
        yield _start(len(self.content), {"type": kind, **empty})

    def _said(self, text: str) -> Iterator[Told]:
        if self._open != "text":
            if not text.strip():
                self._before += text
                return
            text = self._before + text
            yield from self._begin("text", {"text": ""})
        if text:
            self._parts.append(text)
            yield _delta(len(self.content), {"type": "text_delta", "text": text})

    def _thought(self, text: str) -> Iterator[Told]:
        if self._open != "thinking":
            text = text.lstrip()
            if not text:
                return
            yield from self._begin("thinking", {"thinking": "", "signature": ""})
        kept = text.rstrip()
        if not kept:
            self._behind += text
            return
        shown, self._behind, self._before = self._behind + kept, text[len(kept) :], ""
        if self.shows_thoughts:
            self._parts.append(shown)
            yield _delta(len(self.content), {"type": "thinking_delta", "thinking": shown})

    def _call(self, index: int, call: _Call) -> Iterator[Told]:
        self._calls[index] = call
        # Of two at a time, which no format here has, the second would wait for its end.
        if self.streams and self._calling is None and not self._has_its_call():
            self._calling = index
            yield from self._begin("tool_use", {"id": call.id, "name": call.name, "input": {}})

    def _called(self, index: int) -> Iterator[Told]:
        call = self._calls.pop(index)
        if index != self._calling and self._has_its_call():
            return
        if index != self._calling:
            yield from self._begin("tool_use", {"id": call.id, "name": call.name, "input": {}})
            for part in filter(None, call.arguments):
                yield _delta(len(self.content), _input(part))
        yield from self.end()
        self._calling = None
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        self.content.append({**block, "input": _read("".join(call.arguments))})

    def _no_call(self, index: int, text: str, why: str) -> Iterator[Told]:
        call = self._calls.pop(index, None)
        if call is None or index != self._calling:
            yield from self._said(text)
            return
        self._calling = None
        if why != CUT:
            raise broken_call(call.name, why)
        self.cut = call.name
        yield from self.end()
        self.content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})

    def _has_its_call(self) -> bool:
        return self.one_call and any(block["type"] == "tool_use" for block in self.content)


def broken_call(name: str, why: str) -> EngineError:
    """The error of a stream that has told what is no call."""
    return EngineError(
        f"What began as a call of {shorten(name)} is none: it is {why}.",
        remedy="Do not run it. Ask again, or without a stream, where it is text.",
        code="engine.call",
    )


def _input(text: str) -> dict[str, str]:
    return {"type": "input_json_delta", "partial_json": text}


def _start(at: int, block: dict[str, Any]) -> Told:
    return {"type": "content_block_start", "index": at, "content_block": block}


def _delta(at: int, delta: dict[str, str]) -> Told:
    return {"type": "content_block_delta", "index": at, "delta": delta}


def _stop(at: int) -> Told:
    return {"type": "content_block_stop", "index": at}


def _read(arguments: str) -> Any:
    """The arguments of a call as they are sent on: JSON has no infinity, but 1e999."""
    return json.loads(arguments, parse_float=_finite)


def _finite(text: str) -> float:
    most = sys.float_info.max
    return min(max(float(text), -most), most)
