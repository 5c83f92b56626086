"""Qwen3-Coder and Qwen 3.5: XML-like marks, with arguments as plain text.

After the card and the template of Qwen/Qwen3-Coder-30B-A3B-Instruct::

    <tool_call>
    <function=name>
    <parameter=key>
    value
    </parameter>
    </function>
    </tool_call>

The line ends around a value are no part of it. What a value is follows from the tool's schema;
without one it is a string.
"""

from __future__ import annotations

from edgewise_runtime.calls.deltas import CUT
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.json_scanner import escaped
from edgewise_runtime.calls.source import NotACallError, Reading, Source
from edgewise_runtime.calls.typed import is_text, typed, types_of

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"


def _read(source: Source) -> Reading[None]:
    # The first mark is forgotten now and then.
    while mark := (yield from source.content((_OPEN, _FUNCTION))):
        yield from source.attempt(mark, _calls(source, mark))


def _calls(source: Source, mark: str) -> Reading[None]:
    if mark == _OPEN:
        yield from source.spaces()
        yield from source.expect(_FUNCTION)
    yield from _call(source)
    while not (yield from source.closing(_CLOSE)) and (yield from source.literal(_FUNCTION)):
        yield from _call(source)


def _call(source: Source) -> Reading[None]:
    tool = yield from source.word()
    yield from source.expect(">")
    source.begin(tool)
    source.arguments("{")
    separator = ""
    while True:
        yield from source.spaces()
        if (yield from source.expect(_PARAMETER, _FUNCTION_END)) == _FUNCTION_END:
            break
        key = yield from source.word()
        yield from source.expect(">")
        source.arguments(f'{separator}"{escaped(key)}": ')
        yield from _value(source, types_of(source.tools, tool, key))
        separator = ", "
    source.arguments("}")
    source.end()


def _value(source: Source, types: tuple[str, ...]) -> Reading[None]:
    yield from source.literal("\n")
    if is_text(types):
        lines = _Lines(source)
        source.arguments('"')
        mark = yield from source.until((_PARAMETER_END,), lines.push)
        source.arguments('"')
    else:
        held: list[str] = []
        mark = yield from source.until((_PARAMETER_END,), held.append)
        source.arguments(typed("".join(held).removesuffix("\n"), types))
    if not mark:
        raise NotACallError(CUT)


class _Lines:
    """Passes a text on as the inside of a JSON string, without a line end that it ends with."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._held = ""

    def push(self, text: str) -> None:
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        self._source.arguments(escaped(text.removesuffix("\n")))


QWEN3_CODER = Format(
    name="qwen3_coder",
    read=_read,
    marks=(_OPEN, _CLOSE),
    triggers=(_OPEN, _FUNCTION),
    spelling=Spelling(
        begin=f"{_OPEN}\n{_FUNCTION}",
        named=">\n",
        end=f"{_FUNCTION_END}\n{_CLOSE}",
        between="\n",
        arguments="xml",
        after="free",
    ),
)
