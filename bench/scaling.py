"""What several machines would do, computed from what one was measured at; docs/scaling.md has it.

    python bench/scaling.py

Nothing is measured here. The figures are those of docs/benchmarks.md, by the names they have there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GIB = 1 << 30
BUSY = 0.7
"""Share of the time that a machine may be at work and still answer soon."""


@dataclass(frozen=True)
class Machine:
    """What one machine was measured at.

    Attributes:
        prefill: prompt tokens computed a second.
        decode: tokens of answers a second, several sequences at a time.
        kept: bytes of KV pages kept for prefixes.
        token: bytes of a token's KV.
    """

    prefill: float
    decode: float
    kept: int
    token: int

    def seconds(self, prompt: float, answer: float) -> float:
        """Of the machine, for a request with so many prompt tokens to compute and to answer."""
        return prompt / self.prefill + answer / self.decode

    def prefixes(self, tokens: int) -> int:
        """How many prefixes of so many tokens it keeps."""
        return self.kept // (tokens * self.token)


QWEN3 = Machine(
    # "The engine": 1,530 tokens never seen in 3.85 s, and eight clients' decode.
    prefill=1530 / 3.85,
    decode=299,
    # `Settings.prefix_device` on the CPU, and 28 layers of 8 heads of 128 in float16.
    kept=2 * GIB,
    token=2 * 28 * 8 * 128 * 2,
)
"""The shape of Qwen3-0.6B in q4 on 2 vCPU."""


@dataclass(frozen=True)
class Traffic:
    """Requests that begin with one of some prefixes, each as often as the others.

    Attributes:
        prefix, own, answer: tokens of a request.
        prefixes: how many there are.
    """

    prefix: int = 1500
    own: int = 30
    answer: int = 48
    prefixes: int = 48


def hits(machine: Machine, traffic: Traffic, machines: int, *, routed: bool) -> float:
    """The share of requests whose prefix is found where they come to.

    A machine that is sent anything keeps the prefixes used last, C of P; with routing by prefix
    each of N is sent P/N of them.
    """
    kept = machine.prefixes(traffic.prefix) * (machines if routed else 1)
    return min(1.0, kept / traffic.prefixes)


def rate(machine: Machine, traffic: Traffic, machines: int, *, routed: bool) -> float:
    """Requests a second of all machines together, all of them at work."""
    known = hits(machine, traffic, machines, routed=routed)
    computed = traffic.own + (1 - known) * traffic.prefix
    return machines / machine.seconds(computed, traffic.answer)


def requests_table() -> Iterable[str]:
    """How many requests one machine answers."""
    yield "| a request | seconds of the machine | a second, at most | at 70 % |"
    yield "|---|---|---|---|"
    for words, prompt, answer in (
        ("128 tokens in, 48 out", 128, 48),
        ("512 in, 48 out", 512, 48),
        ("1,530 in, 48 out", 1530, 48),
        ("1,530 in of which 1,500 are known, 48 out", 30, 48),
        ("128 in, 512 out", 128, 512),
    ):
        taken = QWEN3.seconds(prompt, answer)
        yield f"| {words} | {taken:.2f} | {1 / taken:.2f} | {BUSY / taken:.2f} |"


def routing_table() -> Iterable[str]:
    """What it is worth to send requests to where their prefix is."""
    yield (
        "| prefixes | machines | found, sent anywhere | found, by prefix | requests a second, "
        "anywhere | by prefix | ratio |"
    )
    yield "|---|---|---|---|---|---|---|"
    for prefixes in (8, 48, 192):
        for machines in (1, 2, 4, 8):
            traffic = Traffic(prefixes=prefixes)
            found = [hits(QWEN3, traffic, machines, routed=way) for way in (False, True)]
            rates = [rate(QWEN3, traffic, machines, routed=way) for way in (False, True)]
            cells = (
                f"{prefixes}",
                f"{machines}",
                *(f"{one:.0%}" for one in found),
                *(f"{one:.2f}" for one in rates),
                f"{rates[1] / rates[0]:.2f}",
            )
            yield f"| {' | '.join(cells)} |"


def rows_table() -> Iterable[str]:
    """How long a batch of rows takes."""
    yield "| rows of 128 tokens in, 48 out | 1 machine | 4 | 16 |"
    yield "|---|---|---|---|"
    for rows in (10_000, 100_000, 1_000_000):
        hours = rows * QWEN3.seconds(128, 48) / 3600
        cells = " | ".join(f"{hours / machines:,.1f} h" for machines in (1, 4, 16))
        yield f"| {rows:,} | {cells} |"


TABLES = (requests_table, routing_table, rows_table)


if __name__ == "__main__":
    print("\n\n".join("\n".join(table()) for table in TABLES))
