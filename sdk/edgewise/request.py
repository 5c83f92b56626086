"""The options of a request, read and checked here and nowhere else.

What needs the model (its context, its vocabulary) is checked by `GenerationEngine.sequences`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgewise.model_defaults import MAX_LENGTH
from edgewise.options import SamplingOptions, SpecialTokens, SubmitOptions, refused, sampling_params
from edgewise.prompt import token_ids
from edgewise.wanted import OPTIONS as WANTED
from edgewise.window import Turns
from edgewise_runtime.engine.constraint import Constraint
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import ContextPolicy, Request, Shorten
from edgewise_runtime.errors import InputError

SPECIAL_TOKENS = ("text", "control")
POLICIES = ("stop", "error", "drop")
MAX_TIMEOUT_S = 7 * 24 * 3600.0
MAX_PRIORITY = 1 << 31
MAX_SALT = 256


@dataclass(frozen=True)
class Asked:
    """The options of one call, checked: what is still missing of a request is its prompt.

    Attributes:
        max_length: tokens of prompt and answer together, of a model that says so and a caller who
            does not say `max_tokens`.
    """

    params: SamplingParams
    priority: int
    timeout_s: float | None
    policy: ContextPolicy
    extras: tuple[str, ...]
    begun: tuple[int, ...]
    special_tokens: SpecialTokens | None
    max_length: int | None

    def of_prompt(
        self,
        ids: tuple[int, ...],
        *,
        shown: tuple[str, ...] = (),
        constraint: Constraint | None = None,
    ) -> Request:
        """The request for a prompt as it is; its answer's text shows these special tokens, and
        follows the constraint.

        Raises InputError ``input.option`` for options that only conversations have.
        """
        if self.begun:
            raise InputError(
                f"begun has {len(self.begun)} tokens of an answer; this prompt has none.",
                remedy="Put them at the end of the prompt, or use chat.",
                code="input.option",
            )
        if self.special_tokens is not None:
            raise InputError(
                f"special_tokens {self.special_tokens!r} is of a conversation's messages; this is "
                "a prompt, whose special tokens are tokens.",
                remedy="Use chat, or leave it out.",
                code="input.option",
            )
        if self.policy == "drop":
            raise InputError(
                "context_policy 'drop' forgets turns of a conversation; this is none.",
                remedy="Use chat, or one of 'stop' and 'error'.",
                code="input.option",
            )
        return replace(self._request(ids), shown=shown, constraint=constraint)

    def of_conversation(
        self,
        turns: Turns,
        context: int,
        *,
        shown: tuple[str, ...] = (),
        constraint: Constraint | None = None,
    ) -> Request:
        """The request for the next turn of a conversation in a context of so many tokens; else as
        `of_prompt`.

        Raises InputError ``input.context`` where turns are dropped and still too many are left.
        """
        if self.policy != "drop":
            return replace(self._request(turns.ids), shown=shown, constraint=constraint)
        context = min(context, self.max_length or context)
        answer = min(self.max_length or self.params.max_tokens, context // 4)
        ids, dropped = turns.fitting(context - answer, context)
        request = self._request(ids, turns.shorter, dropped)
        return replace(request, shown=shown, constraint=constraint)

    def _request(
        self, ids: tuple[int, ...], shorter: Shorten | None = None, dropped: int = 0
    ) -> Request:
        params = self.params
        if self.max_length is not None:
            params = replace(params, max_tokens=self._left(len(ids)))
        return Request(
            ids,
            params,
            priority=self.priority,
            timeout_s=self.timeout_s,
            context_policy=self.policy,
            shorten=shorter,
            dropped_turns=dropped,
            extras=self.extras,
            begun=len(self.begun),
        )

    def _left(self, tokens: int) -> int:
        """How many tokens an answer may have after so many."""
        longest = self.max_length or 0
        if tokens < longest:
            return longest - tokens
        raise InputError(
            f"The prompt has {tokens:,} tokens; by the model's generation_config.json prompt and "
            f"answer have {longest:,} at most (max_length).",
            remedy="Say max_tokens, which comes before it.",
            code="input.context",
        )


def read_options(
    options: Mapping[str, Any], defaults: Mapping[str, Any], *, several: bool = False
) -> Asked:
    """Read and check the options of one call; None is as good as not given.

    Args:
        defaults: options of who has none of their own, see `model_defaults.defaults_from`.
        several: whether the call may have several choices.

    Raises:
        InputError: ``input.sampling`` for an option there is not and for how tokens are chosen,
            ``input.option`` for the others, ``input.n`` for several choices of one.
    """
    unknown = sorted(options.keys() - SubmitOptions.__annotations__.keys())
    if unknown:
        raise InputError(
            f"There is no option {unknown[0]!r}.",
            remedy=f"There are {', '.join(sorted(SubmitOptions.__annotations__))}.",
            code="input.sampling",
        )
    given = {name: value for name, value in options.items() if value is not None}
    for name, (allows, wanted) in _TREATMENT.items():
        if name in given and not allows(given[name]):
            raise refused(name, given[name], wanted, code="input.option")
    value: SamplingOptions | None = given.get("sampling")
    others = {*_TREATMENT, "begun", *WANTED}
    beside = {name: value for name, value in given.items() if name not in others}
    chosen = {**(value.given() if value else {}), **beside}
    of_model = {name: value for name, value in defaults.items() if name != MAX_LENGTH}
    params = sampling_params({**of_model, **chosen, **_biases(of_model, chosen)})
    if params.n != 1 and not several:
        raise InputError(
            f"n is {params.n}, and this gives one completion.",
            remedy="Use choices(...), or submit(..., n=...) and its results().",
            code="input.n",
        )
    return Asked(
        params,
        priority=given.get("priority", 0),
        timeout_s=given.get("timeout_s"),
        policy=given.get("context_policy", "stop"),
        extras=(given["cache_salt"],) if "cache_salt" in given else (),
        begun=token_ids(given.get("begun", ())),
        special_tokens=given.get("special_tokens"),
        max_length=None if "max_tokens" in chosen else defaults.get(MAX_LENGTH),
    )


def _biases(*options: Mapping[str, Any]) -> dict[str, Any]:
    """The biases of the last of these, and those of tokens that it says nothing of."""
    found = [one["logit_bias"] for one in options if "logit_bias" in one]
    if len(found) < len(options) or not all(isinstance(one, Mapping) for one in found):
        return {}
    return {"logit_bias": {token: bias for one in found for token, bias in one.items()}}


def _is_priority(value: Any) -> bool:
    return type(value) is int and abs(value) <= MAX_PRIORITY


def _is_timeout(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value <= MAX_TIMEOUT_S


def _is_policy(value: Any) -> bool:
    return value in POLICIES


def _is_special_tokens(value: Any) -> bool:
    return value in SPECIAL_TOKENS


def _is_salt(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_SALT


def _is_value(value: Any) -> bool:
    return isinstance(value, SamplingOptions)


_TREATMENT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "priority": (_is_priority, "a whole number, the smallest first"),
    "timeout_s": (_is_timeout, f"above 0 and at most {MAX_TIMEOUT_S:.0f} seconds"),
    "context_policy": (_is_policy, f"one of {', '.join(POLICIES)}"),
    "cache_salt": (_is_salt, f"text of 1 to {MAX_SALT} characters"),
    "special_tokens": (_is_special_tokens, f"one of {', '.join(SPECIAL_TOKENS)}"),
    "sampling": (_is_value, "a SamplingOptions"),
}
"""Options of how a request is treated: which values there are, in code and in words."""
