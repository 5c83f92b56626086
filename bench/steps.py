"""edgewise's generation engine, stepped by hand on the caller's thread."""

from __future__ import annotations

from dataclasses import replace

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.text import Tokenizer
from protocol import token_at

GREEDY = SamplingParams(temperature=0.0, top_p=1.0)

DEFAULTS = SamplingParams(temperature=0.6, top_k=20, top_p=0.95, seed=1)
"""What models' own files ask for."""

UNSEEN = "\0 never \0"
"""Where a stop string is given the host looks at every token: bursts stay at one."""


class Steps:
    """Sequences that are begun together and taken a number of tokens further."""

    def __init__(
        self,
        program: LoadedProgram,
        tokenizer: Tokenizer,
        pages: int,
        context: int,
        sampling: SamplingParams = GREEDY,
    ) -> None:
        self._sampling = sampling
        self._vocab = program.bundle.model.vocab
        self._engine = GenerationEngine(program, tokenizer, pages=pages, context=context)
        self._running: list[Sequence] = []

    def begin(self, batch: int, prompt: int, most: int, *, bursts: bool = True) -> None:
        """Ends what ran, and lets ``batch`` prompts of so many tokens wait for the next step.

        Nothing is left of earlier prompts, so all of their tokens are computed. Sequences end
        after ``most`` tokens.
        """
        for sequence in self._running:
            sequence.cancelled = True
        self._engine.settle()
        self._engine.forget()
        stop = () if bursts else (UNSEEN,)
        params = replace(self._sampling, max_tokens=most, ignore_eos=True, stop=stop)
        prompts = [tuple(token_at(i, s, self._vocab) for i in range(prompt)) for s in range(batch)]
        self._running = [self._engine.sequence(Request(tokens, params)) for tokens in prompts]
        self._engine.submit(self._running)

    def advance(self, tokens: int) -> None:
        """Steps until every sequence has this many tokens more.

        Raises ValueError where the engine has nothing left to do before.
        """
        enough = [len(sequence.tokens) + tokens for sequence in self._running]
        while any(len(s.tokens) < n for s, n in zip(self._running, enough, strict=True)):
            if not self._engine.busy:
                raise ValueError(f"the engine stopped before all had {tokens} more tokens")
            self._engine.step()
