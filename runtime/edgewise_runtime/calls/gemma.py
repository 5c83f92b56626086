"""Gemma: code blocks of Gemma 3, FunctionGemma's and Gemma 4's calls with marked strings.

Gemma 3 has no marks of its own; after Google's guide to function calling with Gemma it is told to
answer with `[f(a=1)]`, a code block of `tool_code`, or JSON. FunctionGemma writes, after its guide,
`<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>`,
Gemma 4 `<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>`, with thoughts in a channel of their own
(after its template).
"""

from __future__ import annotations

from edgewise_runtime.calls import generic
from edgewise_runtime.calls.format import THINK, Format, Spelling, Thoughts
from edgewise_runtime.calls.literals import marked, members
from edgewise_runtime.calls.pythonic import call_lines, call_list
from edgewise_runtime.calls.source import Reading, Source

_CODE, _FENCE = "```tool_code", "```"
_CALL = "call:"
_THOUGHT = ("<|channel>thought\n", "<channel|>")


def _read_blocks(source: Source) -> Reading[None]:
    yield from source.blank()
    begins = yield from source.peek()
    if begins == "[":
        yield from source.attempt("", call_list(source), bare=True)
    elif begins == "{":
        yield from source.attempt("", generic.objects(source), bare=True)
    while mark := (yield from source.content((_CODE, generic.BLOCK))):
        if mark == _CODE:
            yield from source.attempt(mark, _block(source))
        else:
            yield from source.attempt(mark, generic.block(source), bare=True)


def _block(source: Source) -> Reading[None]:
    yield from source.spaces()
    yield from call_lines(source)
    yield from source.closing(_FENCE)


def _marked(name: str, begin: str, end: str, quote: str, thoughts: Thoughts = THINK) -> Format:
    notation = marked(quote)

    def read(source: Source) -> Reading[None]:
        while (yield from source.content((begin,))):
            yield from source.attempt(begin, call(source))

    def call(source: Source) -> Reading[None]:
        yield from source.spaces()
        yield from source.expect(_CALL)
        source.begin((yield from source.word()))
        yield from members(source, notation)
        source.end()
        yield from source.closing(end)

    return Format(
        name=name,
        read=read,
        marks=(begin, end, quote),
        triggers=(begin,),
        spelling=Spelling(begin=begin + _CALL, named="", end=end, arguments="gemma", quote=quote),
        thoughts=thoughts,
    )


GEMMA = Format(
    name="gemma",
    read=_read_blocks,
    marks=(),
    triggers=(_CODE,),
    spelling=Spelling(
        first=f"{_CODE}\n",
        begin="",
        named="",
        end="",
        between="\n",
        last=f"\n{_FENCE}",
        arguments="python",
        after="free",
    ),
)
FUNCTION_GEMMA = _marked(
    "function_gemma", "<start_function_call>", "<end_function_call>", "<escape>"
)
GEMMA4 = _marked("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>', thoughts=(_THOUGHT,))
