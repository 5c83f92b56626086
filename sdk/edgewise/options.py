"""What may be said with a prompt: options as keywords, as a value, and as help() tells of them.

`request.py` reads and checks them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from textwrap import fill
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from edgewise.reasoning import EFFORTS, Reasoning
from edgewise_runtime.calls import FORMATS
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import ContextPolicy
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

SpecialTokens = Literal["text", "control"]
"""What special tokens are that a message has written out: text as any other, or those tokens."""


ToolChoiceLike: TypeAlias = str | Mapping[str, Any] | Callable[..., Any]
"""``auto``, ``none``, ``required``, or a tool: itself, or as OpenAI's API names it."""
ReasoningLike: TypeAlias = bool | int | str | Mapping[str, Any] | Reasoning
"""On or off, an effort, a budget, or several things that are asked of thoughts."""


class SamplingKeywords(TypedDict, total=False):
    """How tokens are chosen, option by option; see `SamplingOptions`."""

    max_tokens: int | None
    min_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    seed: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    logprobs: bool | None
    top_logprobs: int | None


class RequestOptions(SamplingKeywords, total=False):
    """How tokens are chosen, and how a request is treated beside others."""

    sampling: SamplingOptions | None
    priority: int | None
    timeout_s: float | None
    context_policy: ContextPolicy | None
    cache_salt: str | None
    begun: Sequence[int] | None
    special_tokens: SpecialTokens | None
    response_format: Any
    tool_choice: ToolChoiceLike | None
    tool_format: str | None
    reasoning: ReasoningLike | None


class SubmitOptions(RequestOptions, total=False):
    """Of `submit` and `submit_chat`, which may ask for several choices."""

    n: int | None


@dataclass(frozen=True)
class Option:
    """What help() says of an option: its values and their unit, the default, what it does."""

    values: str
    does: str
    default: str = "none"


_PARAMS = SamplingParams()
_OFTEN = "subtracted from the logit of a token of the answer so far"
OPTIONS: dict[str, Option] = {
    "max_tokens": Option(
        "tokens, 0 or more",
        "the most to generate; fewer where the context ends first, and with 0 none: the prompt is "
        "computed and kept for others that begin so",
        f"{_PARAMS.max_tokens}",
    ),
    "min_tokens": Option(
        "tokens, 0 or more",
        "end tokens and stop_token_ids do not come before the answer has so many",
        f"{_PARAMS.min_tokens}",
    ),
    "temperature": Option(
        "0 to 100",
        "what logits are divided by; 0 takes the likeliest token always",
        f"{_PARAMS.temperature}",
    ),
    "top_k": Option(
        "tokens, 0 or more", "keep the k likeliest; 0 and -1 keep all", f"{_PARAMS.top_k}"
    ),
    "top_p": Option(
        "probability, 0 to 1",
        "keep the likeliest tokens that together reach it; 1 keeps all, 0 only the likeliest",
        f"{_PARAMS.top_p}",
    ),
    "min_p": Option(
        "fraction, 0 to 1",
        "keep tokens with at least so much of the likeliest one's probability; 0 keeps all",
        f"{_PARAMS.min_p}",
    ),
    "repetition_penalty": Option(
        "factor, 0.01 to 100",
        "divides positive and multiplies negative logits of tokens seen; 1 for none",
        f"{_PARAMS.repetition_penalty}",
    ),
    "presence_penalty": Option(
        "logits, -100 to 100", f"{_OFTEN}; 0 for none", f"{_PARAMS.presence_penalty}"
    ),
    "frequency_penalty": Option(
        "logits, -100 to 100",
        f"{_OFTEN}, times how often it has come; 0 for none",
        f"{_PARAMS.frequency_penalty}",
    ),
    "logit_bias": Option(
        "dict from token id to logits, -10000 to 10000", "added to the logits of these tokens"
    ),
    "seed": Option(
        "whole number, 0 to 2**64 - 1",
        "of the random numbers; the same seed and request give the same text; -1 is as good as "
        "none",
        "another one each time",
    ),
    "stop": Option("text, or up to 64", "end before the first of them, which is not in the text"),
    "stop_token_ids": Option("up to 64 token ids", "end at the first of them"),
    "ignore_eos": Option("bool", "go on past the model's end tokens", f"{_PARAMS.ignore_eos}"),
    "logprobs": Option(
        "bool",
        "report every token's log-probability by the model itself, in nats: before penalties, "
        "biases and temperature",
        f"{_PARAMS.logprobs}",
    ),
    "top_logprobs": Option(
        "tokens, 0 to 20",
        "with logprobs, also report so many of the likeliest in each one's place",
        f"{_PARAMS.top_logprobs}",
    ),
    "sampling": Option(
        "a SamplingOptions", "all of the above as one value; what stands beside it comes first"
    ),
    "priority": Option(
        "whole number, -2**31 to 2**31",
        "who waits goes in this order, the smallest first, then by arrival",
        "0",
    ),
    "timeout_s": Option(
        "seconds, above 0 to 604800",
        "end it after so long, waiting included, with what there is and finish_reason 'timeout'",
    ),
    "context_policy": Option(
        "'stop', 'error' or 'drop'",
        "where the context is full: end the text there; raise EngineError engine.context; or, of "
        "conversations, leave out the oldest turns after the system prompt. The completion says "
        "so: context_full, dropped_turns",
        "'stop'",
    ),
    "cache_salt": Option(
        "text of 1 to 256 characters",
        "share prefixes in KV memory only with requests of the same salt",
    ),
    "begun": Option(
        "token ids",
        "of conversations: an answer that ended too early, as its completion had them. It goes on "
        "from them as if it had not; pieces are what is new, the completion has all",
    ),
    "special_tokens": Option(
        "'text' or 'control'",
        "of conversations: whether special tokens in messages, tools and variables are the text "
        "they look like, or those tokens, with which whoever wrote them can end a turn and write "
        "another's",
        "'text'",
    ),
    "response_format": Option(
        "a type with hints, 'json', edgewise.regex(...), edgewise.grammar(...), or as in OpenAI's "
        "API",
        "what the answer has to be, after a thought if the model has one; `parsed` of the "
        "completion is what it is read as",
        "any text",
    ),
    "tool_choice": Option(
        "'auto', 'none', 'required' or a tool",
        "whether the model may or must call tools, and which; of those that it may not call it is "
        "told nothing",
        "'auto' where there are tools",
    ),
    "tool_format": Option(
        f"one of {', '.join(sorted(FORMATS))}",
        "how the model writes calls and thoughts",
        "what its chat template tells",
    ),
    "reasoning": Option(
        f"bool, an effort ({', '.join(EFFORTS)}), or tokens",
        "whether, or how hard, the model thinks before it answers, where its chat template has a "
        "switch for that; or after how many tokens its thought is closed",
        "the model's own way",
    ),
    "n": Option(
        "1 to 64",
        "choices to generate for the same prompt, each with random numbers of its own",
        f"{_PARAMS.n}",
    ),
}
"""Every option there is, in the order of help()."""

_INTRODUCED = """\
Options, whose defaults are the model's own (its generation_config.json) where it has them:
"""
_WIDTH, _INDENT = 88, 4
Documented = TypeVar("Documented", bound=Callable[..., Any])


def documents(options: type) -> Callable[[Documented], Documented]:
    """Decorate a function or class so that help() of it lists these options, unit and default.

    Args:
        options: a class with an annotation for each of them.
    """
    names = [name for name in OPTIONS if name in options.__annotations__]

    def add(documented: Documented) -> Documented:
        # Python removes docstrings under -OO.
        own = inspect.cleandoc(documented.__doc__ or "")
        documented.__doc__ = "\n".join((own, "", _INTRODUCED, *map(_line, names)))
        return documented

    return add


def _line(name: str) -> str:
    option = OPTIONS[name]
    said = f"{name}: {option.values}; {option.does}. Default: {option.default}."
    indent = " " * _INDENT
    return fill(
        said,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent * 2,
        break_on_hyphens=False,
    )


@documents(SamplingKeywords)
@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How tokens are chosen, as a value: to keep, to compare, to give to many requests.

        careful = SamplingOptions(temperature=0.2, max_tokens=300)
        engine.chat(messages, sampling=careful)
        engine.chat(messages, sampling=careful, seed=7)

    None is as good as not given. `dataclasses.replace` makes one that differs.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = field(default=None, hash=False)
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        """Raise InputError ``input.sampling`` for a value out of range."""
        params = sampling_params(self.given())
        # The caller's own lists may change, and a value does not.
        for name in ("logit_bias", "stop", "stop_token_ids"):
            if getattr(self, name) is not None:
                value = getattr(params, name)
                kept = dict(value) if isinstance(value, Mapping) else value
                object.__setattr__(self, name, kept)

    def given(self) -> dict[str, Any]:
        """What is not None, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def sampling_params(values: Mapping[str, Any]) -> SamplingParams:
    """The parameters of these values: `stop` may be one string, and the lists any iterable.

    Raises InputError ``input.sampling`` for a value out of range.
    """
    read = dict(values)
    if isinstance(read.get("stop"), str):
        read["stop"] = (read["stop"],)
    for name in ("stop", "stop_token_ids"):
        if name in read:
            if not isinstance(read[name], Iterable):
                raise refused(name, read[name], "a list", code="input.sampling")
            read[name] = tuple(read[name])
    return SamplingParams(**read)


def refused(name: str, value: object, wanted: str, *, code: str) -> InputError:
    """The error of an option whose value is none of those that it may have."""
    return InputError(f"{name} is {shorten(value)}; it must be {wanted}.", code=code)
