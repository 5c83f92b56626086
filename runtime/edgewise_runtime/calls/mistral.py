"""Mistral: `[TOOL_CALLS]` and a list of JSON objects, or of each call a name and its arguments.

After mistral-common's tokenizers: a list up to v7, `[TOOL_CALLS]name[CALL_ID]id[ARGS]{...}` in v11
(the id may be missing), `[TOOL_CALLS]name[ARGS]{...}` in v13. Magistral thinks between `[THINK]`
and `[/THINK]`, its first version between `<think>` and `</think>`.
"""

from __future__ import annotations

from edgewise_runtime.calls.deltas import CUT, MALFORMED
from edgewise_runtime.calls.envelope import arguments, call_list
from edgewise_runtime.calls.format import THINK, Format, Spelling
from edgewise_runtime.calls.source import NotACallError, Reading, Source

_CALLS, _ARGUMENTS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_THINK = ("[THINK]", "[/THINK]")


def _read(source: Source) -> Reading[None]:
    while (yield from source.content((_CALLS,))):
        yield from source.attempt(_CALLS, _calls(source))


def _calls(source: Source) -> Reading[None]:
    yield from source.spaces()
    if (yield from source.peek()) == "[":
        yield from call_list(source)
        return
    name = yield from source.word()
    given = ""
    if (yield from source.literal(_ID)):
        given = yield from source.word()
    if (yield from source.closing(_ARGUMENTS)):
        yield from source.spaces()
    elif (begins := (yield from source.peek())) != "{":
        raise NotACallError(MALFORMED if begins else CUT)
    source.begin(name, given)
    yield from arguments(source)
    source.end()


MISTRAL_LIST = Format(
    name="mistral_list",
    read=_read,
    marks=(_CALLS,),
    triggers=(_CALLS,),
    spelling=Spelling(
        first=f"{_CALLS} [",
        begin='{"name": "',
        named='", "arguments": ',
        end="}",
        between=", ",
        last="]",
    ),
    thoughts=(_THINK, *THINK),
)
MISTRAL = Format(
    name="mistral",
    read=_read,
    marks=(_CALLS, _ARGUMENTS, _ID),
    triggers=(_CALLS,),
    spelling=Spelling(begin=_CALLS, named=_ARGUMENTS, end="", id=_ID),
    thoughts=(_THINK, *THINK),
)
