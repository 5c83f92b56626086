"""What a program's numbers must not depend on, checked on the device at hand.

Bit for bit: a prompt cut anywhere, sequences side by side, steps in one burst. And the logits are
those of the device that packed this, within what its arithmetic allows. The checks are those of
tests/parity, with a bundle that needs no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state, pages_for
from tests.parity.driver import Driver, Floats

LENGTH = 200
CUTS = (1, 2, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 199)
LENGTHS = (3, 16, 40, 63, 64, 65, 129, 1)
"""Tokens in KV of the sequences of a batch: around pages and segments."""

BURSTS = (2, 8, 16)
STEPS = 3

NOISE = {"f32": 1e-3, "f16": 5e-3, "w4a8": 0.035, "w5a8": 0.035, "w6a8": 0.035, "w8a8": 0.035}
"""Root mean square over the logits' deviation. Float32 in another order has 2e-4: some keys and
values round to another float16."""

F32_LARGEST = 5e-3
"""Of one logit of a float32 program, over their deviation: one wrong row hardly moves the mean."""


@dataclass(frozen=True)
class Check:
    """One check of one program; ``detail`` says what differed, or by how much at most."""

    program: str
    name: str
    passed: bool
    detail: str


class Contract:
    """The checks on one loaded program."""

    def __init__(self, program: LoadedProgram, pages: int) -> None:
        self._program = program
        self._pages = pages
        vocab = program.bundle.model.vocab
        self.prompt = prompt(vocab)

    def whole(self) -> Floats:
        """The logits of every row of the prompt, in as few steps as there can be."""
        driver = self._driver()
        return driver.prefill([(driver.stream(), self.prompt)])[0]

    def cuts(self) -> str:
        """Chunked is whole."""
        expected = self.whole()
        for cut in CUTS:
            driver = self._driver(cut)
            stream = driver.stream()
            parts = [driver.prefill([(stream, p)])[0] for p in _cut(self.prompt, cut)]
            if not np.array_equal(np.concatenate(parts), expected):
                return f"cut at {cut}"
        return ""

    def prompts(self) -> str:
        """Prompts prefilled together are prompts prefilled alone."""
        alone = []
        for n in LENGTHS[:5]:
            driver = self._driver()
            alone.append(driver.prefill([(driver.stream(), self.prompt[:n])])[0])
        driver = self._driver(1)
        chunks = [(driver.stream(i), self.prompt[:n]) for i, n in enumerate(LENGTHS[:5])]
        together = driver.prefill(chunks)
        wrong = [n for n, a, b in zip(LENGTHS, alone, together, strict=False) if _differ(a, b)]
        return f"lengths {wrong}" if wrong else ""

    def batches(self) -> str:
        """Decoded together is decoded alone."""
        alone = {n: self._decoded([n]) for n in LENGTHS}
        for size in range(2, len(LENGTHS) + 1):
            together = self._decoded(LENGTHS[:size])
            for row, n in enumerate(LENGTHS[:size]):
                if _differ(together[:, row], alone[n][:, 0]):
                    return f"batch {size}, {n} tokens in KV"
        return ""

    def bursts(self) -> str:
        """A burst is its single steps."""
        for burst in BURSTS:
            single, once = self._bursts([1] * burst), self._bursts([burst])
            if single[0] != once[0] or _differ(single[1], once[1]):
                return f"burst of {burst}"
        return ""

    def _decoded(self, lengths: tuple[int, ...] | list[int]) -> Floats:
        """Logits [steps, sequences, vocab] after prompts of these lengths."""
        driver = self._driver(len(lengths))
        streams = [driver.stream(i) for i in range(len(lengths))]
        for stream, n in zip(streams, lengths, strict=True):
            driver.prefill([(stream, self.prompt[:n])])
        rows = [(stream, self.prompt[n]) for stream, n in zip(streams, lengths, strict=True)]
        return np.stack([driver.decode(rows)[1] for _ in range(STEPS)])

    def _bursts(self, sizes: list[int]) -> tuple[list[int], Floats]:
        driver = self._driver()
        stream, n = driver.stream(), 60
        driver.prefill([(stream, self.prompt[:n])])
        tokens, logits = [self.prompt[n]], np.empty(0, np.float32)
        for k in sizes:
            [more], logits = driver.decode([(stream, tokens[-1])], k=k)
            tokens += more
        return tokens, logits

    def _driver(self, seed: int = 0) -> Driver:
        return Driver(self._program, pages=self._pages, seed=seed)


def prompt(vocab: int) -> list[int]:
    """The tokens that all checks use."""
    found: list[int] = np.random.default_rng(7).integers(0, vocab, LENGTH).tolist()
    return found


def check_bundle(
    device: Device, bundle: Bundle, expected: npt.NDArray[np.float32]
) -> Iterator[Check]:
    """Every check of every program that the device can run.

    Args:
        expected: what ``Contract.whole`` of a float32 program gave on another device.
    """
    pages = len(LENGTHS) * pages_for(bundle.model.context, paged_state(bundle.manifest).page_tokens)
    features = device.features()
    for program in bundle.manifest.programs:
        missing = program.needs.missing(features)
        if program.target != device.target or missing:
            continue
        # What was packed is trusted with the machine that it is run on.
        symbols = {"pages": pages}
        with device.load(bundle, program.id, load_symbols=symbols, trust=True) as loaded:
            contract = Contract(loaded, pages)
            checks: dict[str, Callable[[], str]] = {
                "chunked = whole": contract.cuts,
                "prompts together = alone": contract.prompts,
                "batched = alone": contract.batches,
                "burst = single steps": contract.bursts,
            }
            for name, check in checks.items():
                yield _outcome(program.id, name, check)
            yield _nearness(program.id, program.arithmetic, contract, expected)


def _outcome(program: str, name: str, check: Callable[[], str]) -> Check:
    try:
        wrong = check()
    except EdgewiseError as error:
        # One program that cannot run says nothing about the others.
        wrong = str(error)
    return Check(program, name, not wrong, wrong or "bit-equal")


def _nearness(program: str, arithmetic: str, contract: Contract, expected: Floats) -> Check:
    try:
        error = contract.whole() - expected
    except EdgewiseError as problem:
        return Check(program, "logits as recorded", False, str(problem))
    largest = float(np.abs(error).max() / expected.std())
    noise = float(np.sqrt(np.mean(np.square(error, dtype=np.float64))) / expected.std())
    passed = noise < NOISE[arithmetic] and (arithmetic != "f32" or largest < F32_LARGEST)
    detail = f"largest {largest:.1e}, noise {noise:.1e} of the deviation"
    return Check(program, "logits as recorded", passed, detail)


def _cut(tokens: list[int], cut: int) -> tuple[list[int], list[int]]:
    return tokens[:cut], tokens[cut:]


def _differ(a: Floats, b: Floats) -> bool:
    return not np.array_equal(a, b)
