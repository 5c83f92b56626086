"""gpt-oss: messages in channels, each with a header that may address a tool.

After OpenAI's guide to the harmony response format::

    <|channel|>analysis<|message|>...<|end|>
    <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>

without the line end between the two. The published template has the recipient of a call before its
channel, where the prompt has ended with ``assistant``, so that an answer may begin with it::

     to=functions.f<|channel|>commentary json<|message|>{...}<|call|>

The channel `analysis` is thought, all others are said. What is addressed to a tool of the model's
own (`python`, `browser.search`) is a call of that name; where it is no JSON object, it is the
argument `code` of the call.
"""

from __future__ import annotations

import re

from edgewise_runtime.calls.deltas import CUT
from edgewise_runtime.calls.envelope import arguments
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.json_scanner import escaped
from edgewise_runtime.calls.source import NotACallError, Reading, Source

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_END, _RETURN, _CALL, _CONSTRAIN = "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"
_ENDS = (_END, _RETURN, _CALL)
_FUNCTIONS = "functions."
_RECIPIENT = " to="
_MAX_HEADER = 512
_TO = re.compile(r"[ >]to=([^ \t\r\n<]+)")
_THOUGHT = re.compile(r"<\|channel\|> *analysis")


def _read(source: Source) -> Reading[None]:
    if (yield from source.literal(_RECIPIENT)):
        yield from source.attempt(_RECIPIENT, _addressed(source), bare=True)
    while mark := (yield from source.content((_START, _CHANNEL))):
        header = _Header(mark)
        yield from source.attempt(mark, header.read(source))
        if header.complete:
            yield from source.until(_ENDS, source.think if header.thought else source.say)


def _addressed(source: Source) -> Reading[None]:
    """Read a call whose header the prompt has begun, from its recipient on."""
    header = _Header(_RECIPIENT)
    yield from header.read(source)
    if header.complete:
        raise NotACallError


class _Header:
    """What stands before a message, or all of the message where a tool is called.

    Attributes:
        complete: a message follows that is no call.
        thought: it is none for the user.
    """

    def __init__(self, mark: str) -> None:
        self._text = mark
        self.complete = False
        self.thought = False

    def read(self, source: Source) -> Reading[None]:
        mark = yield from source.until((_MESSAGE, *_ENDS), self._push, _MAX_HEADER)
        if mark != _MESSAGE:
            raise NotACallError if mark else NotACallError(CUT)
        addressed = _TO.search(self._text)
        if addressed:
            yield from _call(source, addressed[1])
            return
        self.thought = bool(_THOUGHT.search(self._text))
        self.complete = True

    def _push(self, text: str) -> None:
        self._text += text


def _call(source: Source, recipient: str) -> Reading[None]:
    source.begin(recipient.removeprefix(_FUNCTIONS))
    yield from source.spaces()
    if recipient.startswith(_FUNCTIONS) or (yield from source.peek()) == "{":
        yield from arguments(source)
        source.end()
        for mark in _ENDS:
            if (yield from source.closing(mark)):
                return
    else:
        source.arguments('{"code": "')
        yield from source.until(_ENDS, lambda text: source.arguments(escaped(text)))
        source.arguments('"}')
        source.end()


HARMONY = Format(
    name="harmony",
    read=_read,
    marks=(_START, _CHANNEL, _MESSAGE, _CONSTRAIN, *_ENDS),
    triggers=(f"{_CHANNEL}commentary to={_FUNCTIONS}",),
    spelling=Spelling(
        begin=f"{_CHANNEL}commentary to={_FUNCTIONS}",
        named=f" {_CONSTRAIN}json{_MESSAGE}",
        end="",
        between=f"{_CALL}{_START}assistant",
        close=_CALL,
        thought=(f"{_CHANNEL}analysis{_MESSAGE}", "<|", f"{_END}{_START}assistant"),
    ),
    thoughts=(),
)
