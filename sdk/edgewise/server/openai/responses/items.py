"""The items of an answer, made of its events as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, Delta, NoCall, Reasoning
from edgewise.hosting.base import Said
from edgewise.server.openai.choices import logprobs_of
from edgewise.server.writing import new_id
from edgewise_runtime.calls import joined

Event = dict[str, Any]


@dataclass
class Items:
    """One item after the other: thoughts, text, calls. Its methods yield what streams tell of it.

    A call that turns out to be none ends as ``incomplete``, and is no item of the whole answer.

    Attributes:
        output: those that are complete.
    """

    logprobs: bool = False
    output: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[str, Any] | None = None
    _begun: int = 0
    _likely: list[dict[str, Any]] = field(default_factory=list)
    _waiting: list[dict[str, Any]] = field(default_factory=list)

    def of(self, said: Said) -> Iterator[Event]:
        """What a step adds."""
        # Of a character in several tokens the text comes with the last of them.
        self._waiting += logprobs_of(said.tokens)["content"] if self.logprobs else []
        for delta in joined(said.deltas):
            yield from self._of(delta)

    def end(self, status: str) -> Iterator[Event]:
        """The end of the item that is open, if one is; `status` is ``completed`` or not."""
        if self._open is not None:
            yield from self._close(status)

    def _of(self, delta: Delta) -> Iterator[Event]:
        match delta:
            case Content(text) if text:
                yield from self._piece("message", "output_text", text)
            case Reasoning(text) if text:
                yield from self._piece("reasoning", "reasoning_text", text)
            case CallBegins(_, id_, name):
                item = {"call_id": id_, "name": name, "arguments": ""}
                yield from self._begin("function_call", "fc_", item)
            case Arguments(_, text) if self._open is not None:
                self._open["arguments"] += text
                yield self._told("response.function_call_arguments.delta", delta=text)
            case CallEnds():
                yield from self.end("completed")
            case NoCall(index, text, _):
                if index is not None:
                    yield from self.end("incomplete")
                if text:
                    yield from self._piece("message", "output_text", text)

    def _piece(self, kind: str, part: str, text: str) -> Iterator[Event]:
        """The next piece of a text, in the item that is open or in a new one."""
        if self._open is None or self._open["type"] != kind:
            yield from self._begin_text(kind, part)
        if self._open is None:  # it has just begun
            return
        self._open["content"][0]["text"] += text
        likely, self._waiting = self._waiting, []
        more = {"logprobs": likely} if kind == "message" else {}
        self._likely += likely
        yield self._told(f"response.{part}.delta", content_index=0, delta=text, **more)

    def _begin_text(self, kind: str, part: str) -> Iterator[Event]:
        blank: dict[str, Any] = {"type": part, "text": ""}
        if kind == "message":
            blank |= {"annotations": [], "logprobs": []}
            yield from self._begin(kind, "msg_", {"role": "assistant", "content": []})
        else:
            yield from self._begin(kind, "rs_", {"summary": [], "content": []})
        if self._open is not None:
            self._open["content"].append(blank)
        self._likely = []
        yield self._told("response.content_part.added", content_index=0, part=dict(blank))

    def _begin(self, kind: str, prefix: str, item: dict[str, Any]) -> Iterator[Event]:
        yield from self.end("completed")
        self._waiting = [] if kind == "function_call" else self._waiting
        self._open = {"id": new_id(prefix), "type": kind, "status": "in_progress", **item}
        self._begun += 1
        yield self._with_item("response.output_item.added")

    def _close(self, status: str) -> Iterator[Event]:
        item = self._open or {}
        kind = item["type"]
        if kind == "function_call":
            name, arguments = item["name"], item["arguments"]
            if status == "completed":
                done = "response.function_call_arguments.done"
                yield self._told(done, name=name, arguments=arguments)
        else:
            [part] = item["content"]
            more: dict[str, Any] = {}
            if kind == "message":
                part["logprobs"] = [*self._likely, *self._waiting]
                more = {"logprobs": part["logprobs"]}
            yield self._told(
                f"response.{part['type']}.done", content_index=0, text=part["text"], **more
            )
            yield self._told("response.content_part.done", content_index=0, part=part)
        item["status"] = status
        yield self._with_item("response.output_item.done")
        if status == "completed" or kind != "function_call":
            self.output.append(item)
        self._open = None

    def _told(self, kind: str, **more: Any) -> Event:
        item = self._open or {}
        return {"type": kind, "item_id": item.get("id"), "output_index": self._begun - 1, **more}

    def _with_item(self, kind: str) -> Event:
        item = dict(self._open or {})
        if "content" in item:
            item["content"] = [dict(part) for part in item["content"]]
        return {"type": kind, "output_index": self._begun - 1, "item": item}
