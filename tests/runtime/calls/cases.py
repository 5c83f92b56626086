"""The cases of tests/calls, which the tests of the tab read too, and how one is run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from edgewise_runtime.calls import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Parser,
    Reasoning,
    format_named,
    joined,
)

FOLDER = Path(__file__).parents[2] / "calls"


@dataclass(frozen=True)
class Case:
    """A text in a format, and the deltas that it is."""

    form: str
    what: str
    text: str
    deltas: Sequence[Delta]
    tools: dict[str, dict[str, Any]] | None
    opened: bool


def deltas_of(written: Iterable[list[Any]]) -> list[Delta]:
    """Deltas as the files have them; of a whole call they say all in one."""
    found: list[Delta] = []
    for kind, *rest in written:
        match kind:
            case "content":
                found.append(Content(*rest))
            case "reasoning":
                found.append(Reasoning(*rest))
            case "call begins":
                found.append(CallBegins(*rest))
            case "arguments":
                found.append(Arguments(*rest))
            case "no call":
                found.append(NoCall(*rest))
            case "call":
                index, id_, name, arguments = rest
                found += [CallBegins(index, id_, name), Arguments(index, arguments)]
                found.append(CallEnds(index))
            case _:
                raise ValueError(kind)
    return found


def cases() -> list[Case]:
    """All cases of all formats."""
    return [
        Case(
            path.stem,
            case["what"],
            case["text"],
            deltas_of(case["deltas"]),
            case.get("tools"),
            case.get("opened", False),
        )
        for path in sorted(FOLDER.glob("*.json"))
        if path.stem != "templates"
        for case in json.loads(path.read_text("utf-8"))
    ]


def parsed(case: Case, pieces: Iterable[str]) -> list[Delta]:
    """What a parser makes of pieces of text; ids count from ``id0``."""
    ids = count()
    parser = Parser(
        format_named(case.form),
        tools=case.tools,
        opened=case.opened,
        new_id=lambda: f"id{next(ids)}",
    )
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return joined([*deltas, *parser.end()])


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    """A text in pieces, the sizes of which come round again."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces
