"""One choice of one request and what has become of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

from edgewise_runtime.engine.answer import AnswerText
from edgewise_runtime.engine.completion import Completion, FinishReason, Timings, Usage
from edgewise_runtime.engine.constraint import Constraint, Guide, Mask
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.engine.pooling import Pooled, Pooling
from edgewise_runtime.engine.records import RequestMetrics, RequestRecord
from edgewise_runtime.engine.sampling import MAX_BIAS, SamplingParams
from edgewise_runtime.engine.turn import Turn
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError
from edgewise_runtime.format.abi import RING
from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.text import Tokenizer

ContextPolicy = Literal["stop", "error", "drop"]
"""What to do where an answer reaches the end of the context: end it there, fail, or go on with a
shorter prompt."""

Shorten = Callable[[int], tuple[tuple[int, ...], int] | None]
"""Given how many tokens a prompt may have, one without its oldest turns, and how many it lacks in
all; None where nothing can be."""


@dataclass(frozen=True)
class Request:
    """A prompt as token ids and how to go on from it.

    Attributes:
        priority: who waits goes in the order of these, the smallest first, then of arrival.
        timeout_s: seconds from its arrival after which it ends where it is; None for never.
        context_policy: what to do at the end of the context.
        shorten: for the policy ``drop``.
        dropped_turns: turns of the conversation that the prompt lacks already.
        extras: what keeps its prefixes apart from those of others, such as a tenant's name.
        begun: so many of the last tokens of the prompt begin the answer, which goes on from them.
        pin: whether what it computes is to stay on the device until it is unpinned.
        shown: special tokens that are part of one of these texts are in the answer's text.
        constraint: what the answer must follow, with what has `begun` of it.
        pooling: make a vector of its prompt's hidden states; None for none. Its pages are its own:
            it finds none of others, who see nothing of it in what is kept for them.
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    priority: int = 0
    timeout_s: float | None = None
    context_policy: ContextPolicy = "stop"
    shorten: Shorten | None = None
    dropped_turns: int = 0
    extras: tuple[str, ...] = ()
    begun: int = 0
    pin: bool = False
    shown: tuple[str, ...] = ()
    constraint: Constraint | None = None
    pooling: Pooling | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What a step added to a sequence.

    Attributes:
        text: what is certain now, perhaps nothing: no part of a character or of a stop string.
        token_ids: the tokens that came, whose text may still be to come.
        logprobs: of each token, where they were asked for.
        index: which choice of its request it belongs to.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    index: int = 0


class Sequence:
    """The state of one choice. Times are seconds of `perf_counter`.

    Attributes:
        known: ids of the prompt and of what has been generated.
        prompt_len: how many of them are the prompt.
        begun: those at its end that begin the answer.
        limit: how many may be known at most.
        computed: how many of them have their keys and values in pages.
        exact: how many of those, from the first, prefill has written.
        slot: row of per-sequence state on the device while running.
        counted: the device knows which tokens it has had, where penalties need that.
        chain: the keys of the pages that its tokens fill; the scheduler gives it the root.
        holding: KV pages held while running.
        turn: when it is given a place, and its part of a step.
        finish_reason: None while unfinished.
        failure: the error that ended it.
        index: which choice of its request it is.
        leader: the first choice, whose prompt this one shares; None for the first itself.
        dropped_turns: turns of the conversation left out to stay within the context.
        rewound: its prompt has changed, so what its pages hold is another one's.
        guide: where its answer stands in what it must follow; None where it is free.
        pooled: what becomes of its hidden states; None where they are not asked for.
    """

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        end_tokens: Iterable[int],
        context: int,
        *,
        index: int = 0,
        leader: Sequence | None = None,
    ) -> None:
        params = request.params
        self.request = request
        self.params = params
        self.index = index
        self.leader = leader
        self.context = context
        self.known = list(request.prompt)
        self.prompt_len = len(request.prompt)
        self.begun = request.prompt[self.prompt_len - request.begun :]
        self.limit = min(context, self.prompt_len + params.max_tokens)
        self.seed: int = secrets.randbits(64) if params.seed is None else params.seed
        if leader is not None:
            self.seed = leader.seed
        self.computed = 0
        self.exact = 0
        self.slot = -1
        self.counted = False
        self.chain = KeyChain(b"")
        self.holding: Holding | None = None
        self.logprobs: list[TokenLogprob] = []
        self.finish_reason: FinishReason | None = None
        self.failure: EdgewiseError | None = None
        self.cancelled = False
        self.arrival = 0
        self.turn = Turn()
        self.bursts = 0
        self.cached_tokens = 0
        self.dropped_turns = request.dropped_turns
        self.rewound = False
        self.record: RequestRecord | None = None
        self.metrics: RequestMetrics | None = None
        self.on_piece: Callable[[Piece], None] = lambda piece: None
        self.on_end: Callable[[], None] = lambda: None
        self.prefill_s = 0.0
        self.decode_s = 0.0
        self.created = perf_counter()
        self.deadline = None if request.timeout_s is None else self.created + request.timeout_s
        self._ttft_s = 0.0
        self._ends = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            self._ends |= frozenset(end_tokens)
        self._unending = params
        if params.min_tokens:
            never = dict.fromkeys(self._ends, -MAX_BIAS)
            self._unending = replace(params, logit_bias={**params.logit_bias, **never})
        self._text = AnswerText(tokenizer.stream(shown=request.shown), params.stop, self.begun)
        constraint = request.constraint
        self.guide = None if constraint is None else Guide(constraint, self.begun)
        self._was_due = False  # the last token taken
        self.pooled = None if request.pooling is None else Pooled(request.pooling)
        if self.guide is not None and self.guide.ended:
            self.finish_reason = "stop"

    @property
    def ended(self) -> bool:
        return self.finish_reason is not None

    @property
    def tokens(self) -> list[int]:
        """Those that have been generated."""
        return self.known[self.prompt_len :]

    @property
    def drawn(self) -> int:
        """How many have been generated."""
        return len(self.known) - self.prompt_len

    @property
    def asked_len(self) -> int:
        """How many of those known were asked: the prompt without what begins the answer."""
        return self.prompt_len - len(self.begun)

    @property
    def decoding(self) -> bool:
        """Whether a step gives its next token from the one before: all others are in KV."""
        known = len(self.known)
        return known > self.prompt_len and self.computed == known - 1

    @property
    def prefilling(self) -> bool:
        """Whether it has a place, and steps compute what it knows."""
        return self.holding is not None and not self.decoding

    @property
    def too_short(self) -> bool:
        """Whether it must not end yet."""
        least = self.params.min_tokens
        return least > 0 and len(self.begun) + self.drawn < least

    @property
    def drawing(self) -> SamplingParams:
        """How its next token is drawn."""
        return self._unending if self.too_short else self.params

    @property
    def wants_none(self) -> bool:
        """Whether only its prompt is to be computed."""
        return self.params.max_tokens == 0

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self.limit - len(self.known)

    @property
    def context_full(self) -> bool:
        """Whether it ended where the context does, with more tokens allowed."""
        full = self.finish_reason == "length" and len(self.known) >= self.context
        return full and self.drawn < self.params.max_tokens

    @property
    def unseen(self) -> int:
        """Tokens that may come before the host sees them: one where it may end it, or wants more of
        it, or the next one may be drawn in another way."""
        params = self.params
        if params.stop or params.stop_token_ids or params.logprobs or self.too_short:
            return 1
        # Under a mask: as many as the mask has been the same for, so that few are drawn in vain.
        return max(self.guide.steady, 1) if self.guide is not None and self.masked else RING

    @property
    def masked(self) -> bool:
        """Whether its next token may not be any."""
        try:
            return self.guide is not None and not self.guide.free
        except EdgewiseError:
            return True  # which is told where its mask is made

    def may_follow(self, draft: tuple[int, ...]) -> tuple[int, ...]:
        """As many of a draft's tokens as may come, one after the other."""
        if self.guide is None:
            return draft
        try:
            return draft[: self.guide.allowed(draft)]
        except EdgewiseError:
            return ()  # which is told where its mask is made

    def masks(self, words: int, draft: tuple[int, ...] = ()) -> list[Mask | None]:
        """The tokens that may come next, and after each of a draft; see `Guide.masks`."""
        if self.guide is None:
            return [None] * (1 + len(draft))
        return self.guide.masks(words, self._ends, draft, short=self.too_short)

    def accept(
        self,
        tokens: Iterable[int],
        logprobs: Iterable[TokenLogprob] = (),
        *,
        burst: bool = False,
    ) -> Piece:
        """Take the tokens of a step or burst; return the text they make certain.

        Sets `finish_reason` where one of them ends the sequence; tokens after that one are
        dropped.

        Args:
            burst: all were drawn as the first of them had to be. Those are dropped that come after
                the one from which on another may come, or must.
        """
        if not self._ttft_s:
            self._ttft_s = perf_counter() - self.created
        taken, text = self._take(tuple(tokens), burst)
        if self.finish_reason is not None:
            text += self._flush()
        said = tuple(logprobs)[: len(taken)]
        self.logprobs += said
        piece = Piece(text, taken, said, self.index)
        self.on_piece(piece)
        return piece

    def force(self) -> Piece | None:
        """Take the tokens that must come next, which are computed as those of a prompt; None where
        there are none.

        Where log-probabilities are asked for they are drawn, one at a time: each has one.
        """
        if self.guide is None or self.ended or self._was_due or self.guide.due:
            return None
        forced = self.guide.forced
        if self.params.logprobs:
            self.guide.draw(forced)
        if not forced or self.params.logprobs:
            return None
        self.counted = False  # the device does not hear of them
        return self.accept(forced)

    def end(self, reason: FinishReason) -> None:
        """End an unfinished sequence where it is: ``cancelled`` or ``timeout``, or ``length`` of
        one that was to give no tokens."""
        if not self.ended:
            self.finish_reason = reason
            # What might have become a stop string no longer can.
            text = self._flush()
            if text:
                self.on_piece(Piece(text, (), index=self.index))

    def fail(self, error: EdgewiseError) -> None:
        """End an unfinished sequence with an error."""
        if not self.ended:
            self.finish_reason = "error"
            self.failure = error

    def restart(self) -> None:
        """Nothing of it is in pages any more."""
        self.computed = self.exact = self.bursts = 0
        self.holding = None
        self.slot = -1
        self.counted = False
        if self.pooled is not None and not self.ended:
            self.pooled.forget()

    def completion(self) -> Completion:
        """Return what has been generated; the sequence must be finished."""
        timings = Timings(
            ttft_s=self._ttft_s,
            prefill_s=self.prefill_s,
            decode_s=self.decode_s,
            prompt_tokens=self.prompt_len if self.prefill_s else 0,
            decode_tokens=max(self.drawn - 1, 0),
            cached_tokens=self.cached_tokens,
        )
        return Completion(
            text=str(self._text),
            token_ids=(*self.begun, *self.tokens),
            finish_reason=self.finish_reason or "cancelled",
            usage=Usage(self.prompt_len, self.drawn, self.cached_tokens),
            timings=timings,
            seed=self.seed,
            index=self.index,
            logprobs=tuple(self.logprobs) if self.params.logprobs else None,
            context_full=self.context_full,
            dropped_turns=self.dropped_turns,
            metrics=self.metrics,
            stop=self._text.stop if self.finish_reason == "stop" else None,
        )

    def _take(self, tokens: tuple[int, ...], burst: bool) -> tuple[tuple[int, ...], str]:
        """Take tokens up to the one that ends it; return them and what they make certain.

        All at once, but for stop strings and constraints: one may end it with any of them.
        """
        each = 1 if self.params.stop or self.guide else max(self.limit - len(self.known), 1)
        said = ""
        for start in range(0, len(tokens), each):
            run = tokens[start : start + each]
            ended = not self._ends.isdisjoint(run)
            if ended:
                run = run[: 1 + next(i for i, token in enumerate(run) if token in self._ends)]
            self.known += run
            said += self._text.push(run[:-1] if ended else run)
            if ended or self._text.stopped or self._guided(run):
                self.finish_reason = self.finish_reason or "stop"
            elif len(self.known) >= self.limit:
                self._at_limit()
            elif not burst or start + len(run) == len(tokens) or self._goes_on():
                continue
            else:
                self.counted = False  # the device has counted what is dropped
            return tokens[: start + len(run)], said
        return tokens, said

    def _guided(self, run: tuple[int, ...]) -> bool:
        """Take a token into what the answer follows; whether it ends it, or fails it."""
        if self.guide is None:
            return False
        self._was_due = bool(self.guide.due)
        try:
            if not self.guide.follow(run[0]):
                self.fail(_refused(run[0]))
            return self.ended or self.guide.ended
        except EdgewiseError as error:
            self.fail(error)
            return True

    def _goes_on(self) -> bool:
        """Whether its next token is drawn as the last one was."""
        if self.guide is None:
            return True
        try:
            return self.guide.goes_on(self._ends)
        except EdgewiseError:
            return False  # which is told where its mask is made

    def _flush(self) -> str:
        text = self._text.finish()
        if self._text.stopped and self.finish_reason == "length":
            self.finish_reason = "stop"  # in characters that were held back
        return text

    def _at_limit(self) -> None:
        """The last token allowed has come: the end, unless only the context is in the way."""
        if self.drawn >= self.params.max_tokens:
            self.finish_reason = "length"
        elif self.request.context_policy == "error":
            self.fail(
                EngineError(
                    f"The context of {self.context:,} tokens is full after {self.drawn:,} "
                    f"tokens of the answer; {self.params.max_tokens:,} were allowed.",
                    remedy="Ask for fewer tokens, shorten the prompt, or set context_policy to "
                    "'stop' or 'drop'.",
                    code="engine.context",
                )
            )
        elif self.request.context_policy == "stop" or not self._shorten():
            self.finish_reason = "length"

    def _shorten(self) -> bool:
        """Go on with a prompt without its oldest turns; False where there is none."""
        answer = self.known[self.prompt_len :]
        shorter = self._shorter(len(answer))
        if shorter is None:
            return False
        prompt, dropped = shorter
        self.known = [*prompt, *answer]
        self.chain = KeyChain(self.chain.root)
        self.prompt_len = len(prompt)
        self.limit = min(self.context, len(self.known) + self.params.max_tokens - self.drawn)
        self.dropped_turns = dropped
        self.rewound = True
        return True

    def _shorter(self, answer: int) -> tuple[tuple[int, ...], int] | None:
        """A prompt shorter than now that leaves room for more than `answer` tokens."""
        shorten, left = self.request.shorten, self.params.max_tokens - self.drawn
        # Room for as much as there is already, so that this does not happen at every token, but
        # rather at some of them than that the text ends.
        for more in (max(answer, self.context // 8), self.context // 8, 1):
            room = self.context - answer - min(more, left)
            shorter = shorten(room) if shorten is not None and room > 0 else None
            if shorter is not None and len(shorter[0]) < self.prompt_len:
                return shorter
        return None


def _refused(token: int) -> DeviceError:
    """What no correct program draws."""
    return DeviceError(
        f"The device gave the token {token}, which may not come there.",
        remedy="Run the self-test; another program of the bundle may work on this device.",
        code="device.output",
    )
