"""``POST /api/generate``: one prompt, alone or as the next turn of an earlier one."""

from __future__ import annotations

from dataclasses import replace
from secrets import token_hex
from typing import Any

from edgewise.hosting.base import Ask, Ended, Hosted
from edgewise.server.ollama.answers import Part
from edgewise.server.ollama.options import Options, options_of
from edgewise.server.ollama.requests import GenerateRequest, check_served
from edgewise_runtime.errors import InputError, UnsupportedError

NOT_RAW = ("system", "context")
"""Fields that only a chat template could follow."""


def check_prompt(request: GenerateRequest) -> None:
    """Refuse a request for what there is not.

    Raises:
        InputError: ``input.raw`` for a raw prompt with what is not raw.
        UnsupportedError: as `check_served`.
    """
    check_served(request)
    for name in NOT_RAW:
        if request.raw and getattr(request, name):
            raise InputError(
                f"raw mode does not support {name}.",
                remedy=f"Write {name} into the prompt, or leave raw out.",
                code="input.raw",
            )


async def prompt_of(request: GenerateRequest, hosted: Hosted) -> tuple[Ask, Options]:
    """What is asked of a model, and with which options.

    Raises InputError and UnsupportedError for what there is not.
    """
    options = options_of(request, hosted.facts)
    prompt = request.prompt or ""
    if request.raw or not hosted.facts.template:
        return await _plain_of(request, hosted, options), options
    turns = [{"role": "user", "content": prompt}]
    if not request.context:
        system = [{"role": "system", "content": request.system}] if request.system else []
        return Ask(messages=[*system, *turns], options=options.given), options
    if request.system:  # the conversation so far has its own
        options = replace(options, ignored=(*options.ignored, "system"))
    ids = [*request.context, *await _next_turn(prompt, request.context, hosted, options)]
    # The template has been told whether to think; thoughts are still to be read.
    return Ask(prompt=ids, options={**options.given, "reasoning": {}}), options


async def context_of(ask: Ask, ended: Ended, hosted: Hosted) -> dict[str, Any]:
    """The conversation so far as token ids, to go on from.

    Nothing where a message writes out special tokens: its ids would be those of the tokens, with
    which whoever wrote it could speak for others.
    """
    if ask.messages is None:
        begun = ask.prompt or ()
        ids = await hosted.tokenize(begun, special=True) if isinstance(begun, str) else begun
    else:
        ids = await hosted.tokenize(await hosted.render(ask), special=False)
        if len(ids) != await hosted.count(ask):
            return {}
    return {"context": [*ids, *ended.token_ids]}


def generate_part(part: Part) -> dict[str, Any]:
    """A part of an answer."""
    return {"response": part.text, **({"thinking": part.thought} if part.thought else {})}


async def _plain_of(request: GenerateRequest, hosted: Hosted, options: Options) -> Ask:
    """A prompt without a template."""
    prompt, given = request.prompt or "", dict(options.given)
    if given.get("reasoning") is False:  # nothing here would make it think
        del given["reasoning"]
    if request.system:
        raise UnsupportedError(
            "The model has no chat template, so it takes no system.",
            remedy="Write it into the prompt.",
            code="unsupported.system",
        )
    if not request.context:
        return Ask(prompt=prompt, options=given)
    more = await hosted.tokenize(prompt, special=False)
    return Ask(prompt=[*request.context, *more], options=given)


async def _next_turn(
    prompt: str, context: list[int], hosted: Hosted, options: Options
) -> list[int]:
    """The tokens that go on from an answer to the next prompt, as the chat template writes them.

    Raises:
        InputError: ``input.prompt`` for a prompt that writes out special tokens.
        UnsupportedError: ``unsupported.context`` for a template that leaves out earlier answers.
    """
    answer = token_hex(8)
    roles = (("user", "?"), ("assistant", answer), ("user", prompt))
    ask = Ask(
        messages=[{"role": role, "content": text} for role, text in roles], options=options.given
    )
    text = await hosted.render(ask)
    if len(await hosted.tokenize(text, special=False)) != await hosted.count(ask):
        raise InputError(
            "The prompt writes out special tokens, which are no text behind a context.",
            remedy="Send the conversation to /api/chat, where they are text.",
            code="input.prompt",
        )
    _, found, rest = text.partition(answer)
    if not found:
        raise UnsupportedError(
            "The model's chat template leaves out earlier answers.",
            remedy="Send the conversation to /api/chat.",
            code="unsupported.context",
        )
    ids = await hosted.tokenize(rest, special=False)
    # An answer that came to its end has the token of it already.
    ends = rest.startswith(tuple(one for one in hosted.facts.end_tokens if one))
    return ids[1:] if ends and ids[:1] == context[-1:] else ids
