"""What the official client makes of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

_EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def folded(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The message that the client has after these, which it has to take without a complaint."""
    snapshot, buffers = None, dict[int, bytes]()
    for event in events:
        if event["type"] == "ping":
            continue
        read = _EVENT.validate_python(event)
        snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    return snapshot.to_dict()
