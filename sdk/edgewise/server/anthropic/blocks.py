"""What a model says as the blocks of a message: as they come, and in the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, Delta, NoCall, Reasoning
from edgewise_runtime.calls import joined

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
    """Tells the deltas of one answer into blocks, none of which has ever to be taken back.

    What begins as a call may turn out to be none, and clients run what they see called. So a call
    is a block once it has ended, and what was none is text.

    White space that begins a text, and around a thought, is no block by itself.

    Attributes:
        one_call: calls after the first are left out: nothing holds the model to it.
        shows_thoughts: thoughts are told, not only that there are some.
        content: the blocks that are whole.
    """

    one_call: bool = False
    shows_thoughts: bool = True
    content: list[dict[str, Any]] = field(default_factory=list)
    _open: Literal["text", "thinking"] | None = None
    _parts: list[str] = field(default_factory=list)
    _before: str = ""
    _behind: str = ""
    _calls: dict[int, _Call] = field(default_factory=dict)

    def of(self, deltas: Iterable[Delta]) -> Iterator[Told]:
        """The events of the next deltas."""
        for delta in joined(deltas):
            match delta:
                case Content(text) | NoCall(None, text):
                    yield from self._said(text)
                case NoCall(int() as index, text):
                    self._calls.pop(index, None)
                    yield from self._said(text)
                case Reasoning(text):
                    yield from self._thought(text)
                case CallBegins(index, id_, name):
                    self._calls[index] = _Call(id_, name)
                case Arguments(index, text):
                    self._calls[index].arguments.append(text)
                case CallEnds(index):
                    yield from self._called(self._calls.pop(index))

    def end(self) -> Iterator[Told]:
        """The events that end the block that is open, if one is."""
        kind, said = self._open, "".join(self._parts)
        if kind is None:
            return
        at = len(self.content)
        if kind == "thinking":
            self.content.append({"type": "thinking", "thinking": said, "signature": SIGNATURE})
            yield _delta(at, {"type": "signature_delta", "signature": SIGNATURE})
        else:
            self.content.append({"type": "text", "text": said})
        yield _stop(at)
        self._open, self._parts, self._behind = None, [], ""

    def _begin(self, kind: Literal["text", "thinking"], empty: dict[str, str]) -> Iterator[Told]:
        yield from self.end()
        self._open, self._before = kind, ""
        yield _start(len(self.content), {"type": kind, **empty})

    def _said(self, text: str) -> Iterator[Told]:
        if self._open != "text":
            text = self._before + text
            if not text.strip():
                self._before = text
                return
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
        text = self._behind + text
        shown = text.rstrip()
        self._behind = text[len(shown) :]
        if not shown:
            return
        self._before = ""
        if self.shows_thoughts:
            self._parts.append(shown)
            yield _delta(len(self.content), {"type": "thinking_delta", "thinking": shown})

    def _called(self, call: _Call) -> Iterator[Told]:
        if self.one_call and any(block["type"] == "tool_use" for block in self.content):
            return
        yield from self.end()
        self._before = ""
        at = len(self.content)
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        yield _start(at, {**block, "input": {}})
        for part in filter(None, call.arguments):
            yield _delta(at, {"type": "input_json_delta", "partial_json": part})
        self.content.append({**block, "input": _read("".join(call.arguments))})
        yield _stop(at)


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
