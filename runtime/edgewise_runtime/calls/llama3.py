"""Llama 3.1 to 3.3: an answer that is a JSON object, or what follows `<|python_tag|>`.

After Meta's model cards of Llama 3.1 and 3.2 and the templates of their checkpoints: functions of
the user's are called by `{"name": "f", "parameters": {...}}`, several with `;` between them; small
models write `[f(a=1), g()]`; built-in tools are called by
`<|python_tag|>brave_search.call(query="x")`, and other text after that mark is code, given to a
tool named `code_interpreter`.
"""

from __future__ import annotations

from edgewise_runtime.calls.envelope import call
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.json_scanner import escaped
from edgewise_runtime.calls.literals import keywords
from edgewise_runtime.calls.pythonic import call_list
from edgewise_runtime.calls.source import NAME, Reading, Source

CODE = "code_interpreter"
_TAG, _END, _MESSAGE_END = "<|python_tag|>", "<|eot_id|>", "<|eom_id|>"
_BUILT_IN = ".call"


def _read(source: Source) -> Reading[None]:
    yield from source.blank()
    begins = yield from source.peek()
    if begins == "{":
        yield from source.attempt("", _objects(source, known=True), bare=True)
    elif begins == "[":
        yield from source.attempt("", call_list(source), bare=True)
    while (yield from source.content((_TAG,))):
        yield from source.attempt(_TAG, _tagged(source))


def _objects(source: Source, *, known: bool) -> Reading[None]:
    yield from call(source, known=known)
    while (yield from source.closing(";")):
        yield from source.spaces()
        yield from call(source, known=known)


def _tagged(source: Source) -> Reading[None]:
    yield from source.spaces()
    begins = yield from source.peek()
    if begins == "{":
        yield from _objects(source, known=False)
        return
    word = (yield from source.word()) if NAME.match(begins) else ""
    if word.endswith(_BUILT_IN) and (yield from source.literal("(")):
        source.begin(word.removesuffix(_BUILT_IN))
        yield from keywords(source)
    else:
        source.begin(CODE)
        source.arguments(f'{{"code": "{escaped(word)}')
        yield from source.until((_END, _MESSAGE_END), lambda text: source.arguments(escaped(text)))
        source.arguments('"}')
    source.end()


LLAMA3 = Format(
    name="llama3",
    read=_read,
    marks=(_TAG,),
    triggers=(_TAG,),
    spelling=Spelling(
        begin='{"name": "',
        named='", "parameters": ',
        end="}",
        between="; ",
    ),
)
