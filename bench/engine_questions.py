"""What ``bench/engine.py`` asks, and of whom."""

from __future__ import annotations

from dataclasses import dataclass

CLIENTS = (1, 2, 4, 8)
CONTEXT = 9216
"""Tokens that the bundle of edgewise allows: those of the longest prompt and some."""

BOTH = ("ours", "peer")


@dataclass(frozen=True)
class Question:
    """A question of `protocol.listen`.

    Attributes:
        line: its name and whole numbers.
        engines: who is asked: ``ours`` and ``peer`` run the shape that is measured, ``demo`` is
            edgewise with the demo model.
        slow: it takes a minute, and is asked fewer times.
    """

    line: str
    engines: tuple[str, ...]
    slow: bool = False


QUESTIONS = {
    # Clients, tokens of each one's prompt and answer.
    **{f"clients_{n}": Question(f"clients {n} 128 48", BOTH) for n in CLIENTS},
    # Tokens that two prompts share, and tokens that they do not.
    "prefix": Question("prefix 1500 30", BOTH),
    # Clients, tokens of their prompts, tokens of the answers that are compared.
    **{f"host_{n}": Question(f"host {n} 32 64 960", ("demo",)) for n in (1, 8)},
    # Tokens of the short prompts and of the long one.
    "short_behind_long": Question("short_behind_long 20 8192", BOTH, slow=True),
    # Streams, tokens of their prompts, tokens before a long prompt comes in and tokens of that.
    "long_prompt": Question("long_prompt 3 128 64 8192", ("ours",), slow=True),
    # Requests of mixed lengths and the seed of those.
    "mixed": Question("mixed 64 1", ("ours",), slow=True),
    # As of long_prompt. It comes last: there is less to fill the memory with.
    "evict": Question("evict 3 128 64 8192", ("ours",), slow=True),
}
